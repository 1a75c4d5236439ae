from airfl.analysis.results import *
