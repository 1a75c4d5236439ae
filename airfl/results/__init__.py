"""What many runs found: collected, averaged over seeds, compared at equal cost.

import airfl
results = airfl.read_results("runs/sweep")
results.frame()                       # one line a run, a pandas DataFrame
results.groups                        # runs that differ in their seed only, together
"""

from airfl.results.collect import Results, read_results, read_some_results

__all__ = ["Results", "read_results", "read_some_results"]
