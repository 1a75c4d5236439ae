from airfl.analysis.audit import *
