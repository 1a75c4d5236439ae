"""The figures and tables of the papers, drawn from any runs: sweeps, comparisons, single runs.

import airfl
from airfl.report.paper import draw_figures
draw_figures(airfl.read_results("runs/sweep"), "runs/figures")
"""

from airfl.report.paper.figures import FIGURES, draw_figures, possible_figures

__all__ = ["FIGURES", "draw_figures", "possible_figures"]
