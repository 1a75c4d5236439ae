"""Privacy auditing: lower bounds on epsilon from attacks on what a run broadcasts.

`airfl.audit("demo", others="silent")` audits an experiment. It calls `airfl.audit.audit.audit`.
"""

from airfl.callable import calls

calls(__name__, "airfl.audit.audit:audit")
