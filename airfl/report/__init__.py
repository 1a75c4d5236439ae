"""What is shown of runs: summaries, tables, figures. All are made from traces alone.

airfl.report("runs/demo")    # one HTML page
"""

from airfl.callable import calls

calls(__name__, "airfl.report.page.page:report")
