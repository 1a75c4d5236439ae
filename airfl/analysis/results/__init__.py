"""The results of many runs: collected, averaged over seeds, compared at equal cost.

import airfl
results = airfl.read_results("runs/sweep")
results.frame()                       # a pandas DataFrame with one row per run
results.groups                        # runs that differ only in their seed, grouped
"""

from airfl.analysis.results.collect import read_results, read_some_results
from airfl.analysis.results.result import Results

__all__ = ["Results", "read_results", "read_some_results"]
