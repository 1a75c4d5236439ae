"""Summaries, tables and figures of runs, all of which are computed from traces.

airfl.report("runs/demo")    # write an HTML page
"""

from airfl.runtime.callable import calls

calls(__name__, "airfl.report.page.page:report")
