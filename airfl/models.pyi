from airfl.learning.tasks.models import *
