from airfl.runtime.streams import *
