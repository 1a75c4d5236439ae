"""The report of many runs: one self-contained HTML file.

from airfl.report.page import write_page
write_page(["runs/sweep"], "runs/sweep/report.html")
"""

from airfl.report.page.page import write_page

__all__ = ["write_page"]
