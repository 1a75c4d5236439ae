from airfl.core.callbacks import *
