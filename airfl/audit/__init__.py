"""Attacks on runs of one's own: lower bounds on epsilon, found by looking at what a run really broadcasts.

`airfl.audit("demo", others="silent")` makes one: it calls `airfl.audit.audit.audit`.
"""

from airfl.callable import calls

calls(__name__, "airfl.audit.audit:audit")
