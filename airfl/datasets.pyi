from airfl.learning.tasks.datasets import *
