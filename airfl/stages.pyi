from airfl.uplinks.stages import *
