from airfl.learning.server import *
