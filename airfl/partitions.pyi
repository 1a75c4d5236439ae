from airfl.learning.tasks.partitions import *
