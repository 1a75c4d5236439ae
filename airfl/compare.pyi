from airfl.study.compare import *
