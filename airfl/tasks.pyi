from airfl.learning.tasks import *
