"""Compute digests of short traces of every scheme in twelve settings, to check whether a code change alters results.

    python experiments/trace_digests.py --write before.json     # at the commit before the change
    python experiments/trace_digests.py --compare before.json   # after the change: lists differences, exit code 1 if
    any

A digest covers type, shape and bytes of every variable, so equal digests mean traces that are equal bit for bit. The
settings and versions in a trace are not compared. Combinations of a scheme and a setting that do not fit are recorded
as refused.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import airfl
from airfl.learning.tasks.datasets import load_dataset
from airfl.learning.tasks.datasets.raw import RawData

SHORT = (
    *("run.rounds=3", "run.devices=24", "run.selected=4", "run.evaluate_every=2", "run.threads=1"),
    *("local.steps=2", "local.epochs=0", "local.batch_size=5", "local.engine=layers", "task.public_samples=50"),
)
SETTINGS: dict[str, tuple[str, ...]] = {
    "as the demo": (),
    "rician over antennas": ("channel.fading=rician", "channel.rician_k=5.0", "antennas.count=4"),
    "nakagami, poisson": ("channel.fading=nakagami", "channel.nakagami_m=2.0", "selection.kind=poisson"),
    "tapped line": ("channel.fading=tapped-line", "channel.delay_spread_s=1e-6", "power.policy=per-subcarrier"),
    "estimated, aged": (
        *("csi.estimation=mmse", "csi.pilots=2", "csi.delay_s=0.002", "channel.speed_m_s=3.0"),
        *("csi.phase_bits=4", "csi.gain_bits=4", "csi.phase_std_rad=0.1"),
    ),
    "in a cell": ("channel.units=physical", "topology.kind=disc", "power.tx_power_dbm=10.0", "channel.fading=rayleigh"),
    "truncated": ("power.policy=truncated-inversion", "power.threshold=0.3", "power.divide_by=active"),
    "cotaf, best channels": ("power.policy=cotaf", "selection.kind=best-k"),
    "fading in time": ("channel.variation=jakes", "channel.speed_m_s=2.0", "selection.kind=proportional-fair"),
    "digital": ("scheme.link=digital", "digital.error_model=nr", "digital.allocation=rate-fair"),
    "calibrated": ("privacy.bound=accountant", "privacy.epsilon=3.0"),
    "unequal": ("task.partition=dirichlet", "task.dirichlet_alpha=0.5", "server.weights=samples", "grid.packing=iq"),
}
OWN = (("scheme.ratio=0.3",), ("scheme.noise_multiplier=0.5",))
"""Overrides that are applied only to schemes with these keys."""


def settings_of(name: str, overrides: Sequence[str]) -> airfl.Settings:
    """Return the demo's settings with a scheme and the overrides of `OWN` that it accepts."""
    accepted = [f"scheme.name={name}", *SHORT, *overrides]
    for own in OWN[:1] if "privacy.bound=accountant" in overrides else OWN:
        try:
            airfl.load_settings("demo", [*accepted, *own])
        except airfl.UserError:
            continue
        accepted += own
    return airfl.load_settings("demo", accepted)


def digests(settings: airfl.Settings, data: RawData) -> dict[str, str]:
    """Return a digest of every variable in the trace of a run."""
    with airfl.run(settings, data=data).trace() as trace:
        return {
            str(name): hashlib.sha256(
                f"{one.dtype} {one.dims} {one.shape}".encode() + one.values.tobytes()
            ).hexdigest()[:16]
            for name, one in sorted(trace.load().variables.items())
        }


def all_digests(schemes: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return the digests by "scheme, setting" and variable, or {"refused": ...} where the two do not fit."""
    data = load_dataset("fashion-mnist-sample")
    result = {}
    for name in schemes:
        for title, overrides in SETTINGS.items():
            try:
                result[f"{name}, {title}"] = digests(settings_of(name, overrides), data)
            except airfl.UserError as error:
                result[f"{name}, {title}"] = {"refused": str(error)}
    return result


def differing(before: dict[str, dict[str, str]], now: dict[str, dict[str, str]]) -> list[str]:
    """Return a line for each trace that differs or is missing."""
    lines = []
    for what in sorted({*before, *now}):
        old, new = before.get(what, {}), now.get(what, {})
        if "refused" in old and "refused" in new:  # the message may change
            continue
        names = [name for name in sorted({*old, *new}) if old.get(name) != new.get(name)]
        if names:
            lines.append(f"{what}: {', '.join(names[:6])}{' ...' if len(names) > 6 else ''} {new.get('refused', '')}")
    return lines


def main() -> int:
    """Write digests to a file or compare them with one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the digests to FILE")
    parser.add_argument("--compare", type=Path, metavar="FILE", help="compare with those in FILE")
    parser.add_argument("--schemes", default="", help="comma-separated schemes; default: all")
    args = parser.parse_args()
    if (args.write is None) == (args.compare is None):
        parser.error("give one of --write and --compare")
    before = json.loads(args.compare.read_text()) if args.compare else {}
    known = before.keys() or [f"{name}, " for name in scheme_names()]
    schemes = args.schemes.split(",") if args.schemes else list(dict.fromkeys(one.split(", ")[0] for one in known))
    now = all_digests(schemes)
    refused = sum("refused" in one for one in now.values())
    print(f"{len(now) - refused} traces of {len(schemes)} schemes, {refused} refused")
    if args.write:
        args.write.write_text(json.dumps(now, indent=1) + "\n")
        return 0
    lines = differing({what: one for what, one in before.items() if what.split(", ")[0] in schemes}, now)
    print("\n".join(lines) or "all equal, bit for bit")
    return 1 if lines else 0


def scheme_names() -> list[str]:
    """Return the names of all schemes."""
    from airfl.schemes.names import SCHEMES

    return list(SCHEMES)


if __name__ == "__main__":
    sys.exit(main())
