"""Compare the cost of schemes: energy, resource elements and air time at equal accuracy, and accuracy at equal energy.

    python experiments/compare_schemes.py --out DIR [--target 0.7] [--seeds 3] [--jobs 2] [section.key=value ...]

To adapt it, copy it and change ROWS, the settings of each scheme, or pass your own file (--config) with [[compare]]
rows, such as `airfl tune` writes. Without tuning, all schemes use the same step size and clip norm, and the table says
so.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import airfl
from airfl.analysis.results.equal_cost import common_budget
from airfl.report.paper import draw_figures
from airfl.report.results import equal_table, results_table, target_table
from airfl.study.sweeps.progress import sweep_progress

CONFIG = Path(__file__).resolve().parent / "configs" / "demo.toml"
ROWS = [
    {"scheme.name": "pfels", "scheme.ratio": 0.1},
    {"scheme.name": "pfels", "scheme.ratio": 0.3},
    {"scheme.name": "wfl-p", "scheme.ratio": 1.0},
    {"scheme.name": "wfl-pdp", "scheme.ratio": 1.0},
    {"scheme.name": "fedavg-topk", "scheme.ratio": 0.1},
    {"scheme.name": "fed-smp-topk", "scheme.ratio": 0.1},
]


def main() -> None:
    """Run the missing runs, print three tables and draw figures."""
    parser = argparse.ArgumentParser(description="Compare energy and spectrum of schemes at equal accuracy.")
    parser.add_argument("--out", type=Path, required=True, help="folder of the runs")
    parser.add_argument("--config", type=Path, help="a settings file whose [[compare]] rows replace ROWS")
    parser.add_argument("--target", type=float, default=0.7, help="target accuracy, from 0 to 1")
    parser.add_argument("--seeds", type=int, default=3, help="runs per scheme")
    parser.add_argument("--jobs", type=int, default=1, help="number of parallel runs")
    parser.add_argument("overrides", nargs="*", metavar="section.key=value", help="overrides for all schemes")
    args = parser.parse_args()
    try:
        with sweep_progress() as report:
            results = airfl.sweep(
                args.config or CONFIG,
                points=None if args.config else ROWS,
                rows=args.config is not None,
                overrides=args.overrides,
                seeds=args.seeds,
                out=args.out,
                jobs=args.jobs,
                report=report,
            )
        budgets = {cost: common_budget(results.groups, cost) for cost in ("rounds", "energy", "resource_elements")}
    except airfl.UserError as error:
        raise SystemExit(str(error)) from None
    from rich.console import Console

    console = Console(width=150)
    console.print(results_table(results, str(args.out)))
    console.print(equal_table(results, budgets))
    console.print(target_table(results, args.target))
    figures = args.out / "figures"
    if not figures.exists():
        print("\n".join(str(file) for file in draw_figures(results, figures, ["energy", "learning-elements", "table"])))


if __name__ == "__main__":
    main()
