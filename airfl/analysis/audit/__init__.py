"""Privacy auditing: lower bounds on epsilon from attacks on what a run broadcasts.

`airfl.audit("demo", others="silent")` audits an experiment. It calls `airfl.analysis.audit.audit.audit`.
"""

from airfl.runtime.callable import calls

calls(__name__, "airfl.analysis.audit.audit:audit")
