from airfl.privacy.accountants import *
