"""The report of many runs: one HTML file that needs nothing else.

from airfl.report.page import write_page
write_page(["runs/sweep"], "runs/sweep/report.html")
"""

from airfl.report.page.page import write_page

__all__ = ["write_page"]
