"""Export a run to MATLAB, SigMF, NumPy and CSV, relate beta to the error, and replay its channel with another scheme.

    python experiments/export_traces.py --out DIR [--run RUN] [--replay wfl-p] [section.key=value ...]

Without --run, a small run with the demo's settings and the overrides is made in DIR/run. Exported files go to
DIR/exports, the replay to DIR/SCHEME.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import airfl
from airfl.config import Settings
from airfl.exports import export

DEMO = Path(__file__).resolve().parent / "configs" / "demo.toml"
SMALL = ["run.rounds=30", "run.devices=200", "run.selected=16", "run.evaluate_every=30", "trace.signals=[0, 29]"]
FORMATS = ("mat", "npz", "csv", "sigmf", "channel")


def correlation(folder: Path) -> float:
    """Return the correlation between beta and the aggregation error over rounds, in dB; nan if beta is constant."""
    with airfl.open_trace(folder) as trace:  # an xarray dataset: every round, every device
        beta, error = trace["alignment_coefficient"].values, trace["aggregation_error"].values
    sent = (beta > 0) & (error > 0)
    beta_db, error_db = 20 * np.log10(beta[sent]), 10 * np.log10(error[sent])
    if len(beta_db) < 2 or np.ptp(beta_db) < 1e-6:
        return np.nan  # a privacy bound that binds in every round gives a constant beta
    return float(np.corrcoef(beta_db, error_db)[0, 1])


def replayed(folder: Path, channel: Path, scheme: str) -> Settings:
    """Return the run's settings with another scheme and its exported channel."""
    with airfl.open_trace(folder) as trace:
        settings = Settings.model_validate_json(trace.attrs["config"])
    return settings.resolved(
        scheme={"name": scheme},
        channel={"fading": "replay", "replay_file": str(channel)},
        topology={"kind": "none"},  # the gains include path loss
    )


def same_fades(one: Path, other: Path) -> bool:
    """Whether both runs have the same selected devices and channel gains."""
    with airfl.open_trace(one) as a, airfl.open_trace(other) as b:
        return all(a[name].identical(b[name]) for name in ("device_id", "channel_gain"))


def main() -> None:
    """Run, export, report the correlation and replay."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="output folder")
    parser.add_argument("--run", type=Path, help="an existing run folder to export")
    parser.add_argument("--replay", default="wfl-p", help="the scheme to run over the same channel")
    parser.add_argument("overrides", nargs="*", metavar="section.key=value")
    args = parser.parse_args()
    folder = args.run or args.out / "run"
    try:
        if args.run is None:
            airfl.run(airfl.load_settings(DEMO, [*SMALL, *args.overrides]), folder)
        with airfl.open_trace(folder) as trace:
            formats = [name for name in FORMATS if name != "sigmf" or "rx_symbols" in trace]
        for name in formats:
            print(f"{name}: {', '.join(str(file) for file in export(folder, name, args.out / 'exports'))}")
        print(f"correlation of beta and the aggregate's error, in dB: {correlation(folder):.3f}")
        channel = args.out / "exports" / "channel.h5"
        again = airfl.run(replayed(folder, channel, args.replay), args.out / args.replay)
        fades = "the same" if same_fades(folder, again.path) else "other"
        print(f"{args.replay} over that channel: {fades} fades, accuracy {again.summary().test_accuracy:.3f}")
    except airfl.UserError as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
