"""Sweep PFELS over SNR and compression ratio: accuracy, energy and resource elements of every pair, and figures.

    python experiments/sweep_snr_ratio.py --out DIR [--seeds 3] [--jobs 2 | --cluster ADDRESS] [section.key=value ...]

To adapt it, copy it and change AXES: any key of `airfl config CONFIG` can be swept. Complete runs in DIR are skipped.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd

import airfl
from airfl.report.paper import draw_figures
from airfl.study.sweeps.progress import sweep_progress

CONFIG = Path(__file__).resolve().parent / "configs" / "demo.toml"
SNR, RATIO = "power.max_snr_db", "scheme.ratio"
AXES = {SNR: [15.0, 20.0, 25.0, 30.0], RATIO: [0.05, 0.1, 0.3, 0.5, 1.0]}


def pivot(frame: pd.DataFrame, figure: str) -> pd.DataFrame:
    """Return the mean over seeds as a table with SNRs in rows and ratios in columns."""
    return frame.pivot_table(values=figure, index=SNR, columns=RATIO, aggfunc="mean")


def main() -> None:
    """Run the sweep, print three tables and draw figures."""
    parser = argparse.ArgumentParser(description="Sweep PFELS over SNR and compression ratio.")
    parser.add_argument("--out", type=Path, required=True, help="folder of the sweep")
    parser.add_argument("--seeds", type=int, default=3, help="runs per point")
    parser.add_argument("--jobs", type=int, default=1, help="number of parallel runs on this machine")
    parser.add_argument("--cluster", help="address of a Dask scheduler to use instead")
    parser.add_argument("overrides", nargs="*", metavar="section.key=value", help="overrides for all points")
    args = parser.parse_args()
    try:
        with sweep_progress() as report:
            results = airfl.sweep(
                CONFIG,
                AXES,
                overrides=["scheme.name=pfels", *args.overrides],
                seeds=args.seeds,
                out=args.out,
                jobs=args.jobs,
                cluster=args.cluster,
                report=report,
            )
    except airfl.UserError as error:
        raise SystemExit(str(error)) from None
    frame = results.frame()
    for figure, scale, what in (
        ("test_accuracy", 100, "test accuracy, %"),
        ("energy", 1, "energy of the run, normalised"),
        ("resource_elements", 1, "resource elements of the run"),
    ):
        print(f"\n{what} ({SNR} down, {RATIO} across)")
        print((scale * pivot(frame, figure)).to_string(float_format=lambda value: f"{value:.4g}"))
    best = max(results.groups, key=lambda group: frame[frame["group"] == group.name]["test_accuracy"].mean())
    print(f"\nbest: {best.name}")
    figures = args.out / "figures"
    if not figures.exists():
        print("\n".join(str(file) for file in draw_figures(results, figures, ["accuracy-ratio", "accuracy-snr"])))


if __name__ == "__main__":
    main()
