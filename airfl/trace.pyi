from airfl.storage.trace import *
