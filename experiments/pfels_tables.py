"""Reproduce energy and subcarriers of tables 2 and 3 of the PFELS paper from link budgets over five seeds.

python experiments/pfels_tables.py                  SNRs uniform in the ratio, as in the configurations
python experiments/pfels_tables.py --spacing db     SNRs uniform in dB, the other reading of the paper
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path

import airfl

PAPERS = Path(__file__).resolve().parent / "configs" / "papers"
SEEDS = 5

# Printed in the paper: energy in 1e11, subcarriers in units of d.
PRINTED = {
    "pfels-cifar10": {"pfels": (2.55, 600), "wfl-p": (5.19, 2000), "wfl-pdp": (3.70, 2000)},
    "pfels-femnist": {"pfels": (1.90, 500), "wfl-p": (2.89, 1000), "wfl-pdp": (2.22, 1000)},
}


def main() -> None:
    """Print one line per table row, with the paper's figures and ours."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--spacing", choices=("linear", "db"), default="linear", help="of the SNRs (default: linear)")
    spacing = parser.parse_args().spacing
    headings = ("energy (1e11)", "paper", "k T / d", "paper", "air time s", "ε one round")
    widths = (22, 9, 14, 8, 13, 13)
    print(" " * 24 + "".join(f"{heading:>{width}s}" for heading, width in zip(headings, widths, strict=True)))
    for name, rows in PRINTED.items():
        for scheme, (energy, subcarriers) in rows.items():
            budgets = [
                airfl.link_budget(
                    airfl.load_settings(
                        PAPERS / f"{name}.toml",
                        [f"scheme.name={scheme}", f"run.seed={seed}", f"power.spacing={spacing}"],
                    )
                )
                for seed in range(SEEDS)
            ]
            found = [budget.energy_j / 1e11 for budget in budgets]
            one = budgets[0]
            print(
                f"{name:15s}{scheme:9s}{statistics.mean(found):15.2f} ± {statistics.stdev(found):.2f}{energy:9.2f}"
                f"{one.entries_per_device / one.dimension:14.4f}{subcarriers:8d}{one.air_time_s:13.1f}"
                f"{max(budget.epsilon_round_max for budget in budgets):13.1f}"
            )


if __name__ == "__main__":
    main()
