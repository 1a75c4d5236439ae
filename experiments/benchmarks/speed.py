"""Benchmark airfl against other simulators and a plain Python loop on typical workloads, and the schemes against
FedAvg.

    python experiments/benchmarks/speed.py [--peers-python PATH] [--turns 3] [--workloads NAME ...] [--markdown FILE]
    python experiments/benchmarks/speed.py --schemes

Every simulator ("peer") runs in its own process, and repetitions are interleaved, so that other load on the machine
slows all of them. JAX, pfl and Flower are in the extra `bench`. pfl and Flower pin older releases of airfl's
dependencies and are best installed in a separate environment, whose Python is passed as --peers-python. Peers that are
not installed are skipped.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import machine
from peers.workload import WORKLOADS, Result, use_all_cores

FOLDER = Path(__file__).resolve().parent
DEMO = FOLDER.parent / "configs" / "demo.toml"
PACKAGES = {"airfl": "airfl", "jax": "jax", "pfl": "pfl", "flower": "flwr", "loop": "torch"}
SIMULATORS = ("pfl", "flower")
ELSEWHERE = ("jax", *SIMULATORS)
"""Peers that may have an environment of their own."""
PROCESS_LIMIT_S = 1800
PLAIN = "fedavg"
# Schemes whose devices send one gradient at the broadcast model, and all schemes with per-sample gradient clipping.
ONE_STEP = {"cdp-sgd", "soteriafl-gd", "soteriafl-sgd", "soteriafl-svrg", "soteriafl-saga", "ldp-sgd", "ldp-svrg"}
PER_SAMPLE = {"dp-fed", "fed-spa"} | ONE_STEP
GOALS = {True: 2.5, False: 1.3}


@dataclass(frozen=True)
class Row:
    """A row of a workload's table.

    Attributes:
        name: The peer or limit.
        rate: Rounds per second, median.
        spread: (max - min)/median.
        best_peer: Speed relative to the fastest other simulator.
        jax: Speed relative to JAX.
        loop: Speed relative to the Python loop.
        share: Speed relative to the machine's limit.
    """

    name: str
    rate: float
    spread: float
    best_peer: float | None
    jax: float | None
    loop: float | None
    share: float

    @property
    def cells(self) -> list[str]:
        """The cells as text."""
        times = [f"{ratio:.3g} x" if ratio else "-" for ratio in (self.best_peer, self.jax, self.loop)]
        return [self.name, f"{self.rate:.3g}", f"{100 * self.spread:.0f}%", *times, f"{100 * self.share:.1f}%"]


HEADINGS = ["", "rounds/s", "spread", "to the best simulator", "to JAX", "to the Python loop", "share of the limit"]


def spread(values: Sequence[float]) -> float:
    """Return (max - min)/median."""
    return (max(values) - min(values)) / statistics.median(values)


def rows_of(rates: dict[str, list[float]], limits: dict[str, list[float]]) -> list[Row]:
    """Return the table of one workload. rates: rounds per second of each peer by turn; limits: rounds per second that
    the machine allows, the first of which is the reference for shares."""
    medians = {name: statistics.median(values) for name, values in rates.items()}
    best = max((medians[name] for name in SIMULATORS if name in medians), default=None)
    limit = statistics.median(next(iter(limits.values())))
    jax, loop = medians.get("jax"), medians.get("loop")

    def row(name: str, values: list[float]) -> Row:
        rate = statistics.median(values)
        return Row(
            name, rate, spread(values), best and rate / best, jax and rate / jax, loop and rate / loop, rate / limit
        )

    bounds = [replace(row(name, values), best_peer=None, jax=None, loop=None) for name, values in limits.items()]
    return [row(name, values) for name, values in rates.items()] + bounds


def markdown(title: str, headings: list[str], cells: list[list[str]]) -> str:
    """Return a Markdown table with aligned columns."""
    widths = [max(map(len, column)) for column in zip(headings, *cells, strict=True)]
    ruler = ["-" * width if place == 0 else "-" * (width - 1) + ":" for place, width in enumerate(widths)]

    def line(parts: list[str]) -> str:
        padded = [
            part.rjust(width) if place else part.ljust(width)
            for place, (part, width) in enumerate(zip(parts, widths, strict=True))
        ]
        return f"| {' | '.join(padded)} |"

    return "\n".join([title, "", line(headings), line(ruler), *map(line, cells), ""])


def installed(package: str, python: str) -> bool:
    """Whether this Python has the package."""
    code = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({package!r}) is None)"
    return subprocess.run([python, "-c", code], check=False, env=environment()).returncode == 0


def environment() -> dict[str, str]:
    """Return environment variables for the peers, with the folder of workload.py on PYTHONPATH, also for workers."""
    paths = [str(FOLDER / "peers"), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def run_peer(peer: str, workload: str, python: str, overrides: Sequence[str] = ()) -> Result:
    """Run a peer in a new process. Raises ValueError with its last message if it fails. overrides: settings of
    airfl."""
    command = [python, str(FOLDER / "peers" / f"{peer}_peer.py"), workload, *overrides]
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, env=environment(), timeout=PROCESS_LIMIT_S
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        raise ValueError(f"{peer} on {workload} failed ({done.returncode}): {lines[-1] if lines else 'no message'}")
    return Result.read(done.stdout)


def compare_peers(workloads: Sequence[str], pythons: dict[str, str], turns: int, overrides: Sequence[str] = ()) -> str:
    """Return Markdown tables of these workloads."""
    peers = {peer: python for peer, python in pythons.items() if installed(PACKAGES[peer], python)}
    for peer in pythons.keys() - peers.keys():
        print(f"{peer} skipped: {pythons[peer]} has no package {PACKAGES[peer]} (extra `bench`; --peers-python)")
    measured: list[machine.Machine] = []
    tables: list[str] = []
    for name in workloads:
        rates: dict[str, list[float]] = {peer: [] for peer in peers}
        limits: dict[str, list[float]] = defaultdict(list)
        for turn in range(turns):
            measured.append(machine.measure())
            for limit, rate in machine.rate_limits(WORKLOADS[name], measured[-1]).items():
                limits[limit].append(rate)
            for peer, python in peers.items():
                try:
                    result = run_peer(peer, name, python, list(overrides) if peer == "airfl" else [])
                except (ValueError, subprocess.TimeoutExpired) as error:
                    print(f"{error}; skipped in turn {turn + 1}")
                    continue
                rates[peer].append(result.rate)
                print(
                    f"{name} {turn + 1}/{turns} {peer:7s}{result.rate:9.2f} rounds/s over {result.rounds}, first round "
                    f"{result.first_s:.1f} s {result.note}",
                    flush=True,
                )
        parameters = f"{WORKLOADS[name].parameters:,} parameters"
        found = rows_of({peer: values for peer, values in rates.items() if values}, limits)
        tables.append(markdown(f"{name}, {parameters}:", HEADINGS, [row.cells for row in found]))
    return "\n".join([described(measured), "", *tables])


def described(measured: Sequence[machine.Machine]) -> str:
    """Return a line that describes the machine, with medians over turns."""
    linear = [one.linear for one in measured if one.linear is not None]
    parts = [f"matrix product {statistics.median(one.product for one in measured):.0f} GFLOP/s"]
    parts += [f"oneDNN's linear {statistics.median(linear):.0f} GFLOP/s"] if linear else []
    parts.append(f"copy {statistics.median(one.copy for one in measured):.0f} GB/s")
    return ", ".join(parts)


def scheme_rounds(name: str, overrides: Sequence[str]) -> Callable[[], None]:
    """A round of the demo under a scheme, without evaluation; the first is done."""
    import torch

    import airfl
    from airfl.core.round import run_round
    from airfl.core.state import State
    from airfl.core.world import build_world

    fixed = [f"scheme.name={name}", "run.rounds=100000", "run.evaluate_every=100000", "local.measure=false"]
    world = build_world(airfl.load_settings(DEMO, [*fixed, *overrides]), torch.device("cpu"))
    state = State(0, world.model.initial(), world.scenario.memory)

    def one_round() -> None:
        nonlocal state
        state, _ = run_round(world, state)

    one_round()
    return one_round


def compare_schemes(turns: int, least_s: float = 0.3, clock: Callable[[], float] = time.perf_counter) -> str:
    """Return the table of schemes: round times relative to FedAvg with the same number of local steps, per turn, with
    the engine that it has by itself (compiled C) and with PyTorch's operations, and relative to PFELS."""
    from airfl.schemes.names import SCHEMES

    single, by_torch = ["local.epochs=0", "local.steps=1"], "local.engine=layers-parallel"
    plain_single, plain_torch = f"{PLAIN}, 1 step", f"{PLAIN}, by torch"
    single_torch = f"{plain_single}, by torch"
    works = {PLAIN: scheme_rounds(PLAIN, []), plain_single: scheme_rounds(PLAIN, single)}
    works[plain_torch] = scheme_rounds(PLAIN, [by_torch])
    works[single_torch] = scheme_rounds(PLAIN, [*single, by_torch])
    references = tuple(works)
    for name in SCHEMES:
        if name != PLAIN:
            works[name] = scheme_rounds(name, single if name in ONE_STEP else [])
    works["affine-oac, affine"] = scheme_rounds("affine-oac", ["scheme.mapping=affine"])
    works["balanced-digits, one digit"] = scheme_rounds("balanced-digits", ["scheme.digits=1"])
    works["md-aircomp, fixed words"] = scheme_rounds("md-aircomp", ["scheme.codebook=fixed"])
    times: dict[str, list[float]] = defaultdict(list)
    for _ in range(turns):
        for name, work in works.items():
            times[name].append(seconds(work, least_s, clock))
    cells = []
    for name, values in times.items():
        bases = (plain_single, single_torch) if name in ONE_STEP else (PLAIN, plain_torch)
        ratios = [
            f"{statistics.median(own / plain for own, plain in zip(values, times[base], strict=True)):.2f}"
            for base in (*bases, "pfels")
        ]
        goal = "" if name in references else f"{GOALS[name in PER_SAMPLE]}"
        mark = "per sample" if name in PER_SAMPLE else ""
        rate = 1 / statistics.median(values)
        cells.append([name, f"{rate:.1f}", f"{100 * spread(values):.0f}%", *ratios, goal, mark])
    headings = [
        "scheme",
        "rounds/s",
        "spread",
        "time over FedAvg's",
        "over FedAvg's by torch",
        "over PFELS'",
        "goal below",
        "gradients",
    ]
    return markdown("Whole rounds of the demo:", headings, cells)


def seconds(work: Callable[[], None], least_s: float, clock: Callable[[], float]) -> float:
    """Return the mean time of a call over at least `least_s` seconds of the clock."""
    begin, calls = clock(), 0
    while (passed := clock() - begin) < least_s or not calls:
        work()
        calls += 1
    return passed / calls


def main() -> None:
    """Measure, print and write the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--turns", type=int, default=3, help="number of repetitions (default 3)")
    parser.add_argument("--workloads", nargs="+", choices=list(WORKLOADS), default=list(WORKLOADS), metavar="NAME")
    parser.add_argument("--peers", nargs="+", choices=list(PACKAGES), default=list(PACKAGES), metavar="NAME")
    parser.add_argument("--peers-python", default=sys.executable, help="a Python that has JAX, pfl and Flower")
    settings = "overrides for airfl, e.g. scheme.name=wfl-p"
    parser.add_argument("--settings", nargs="+", default=[], metavar="KEY=VALUE", help=settings)
    parser.add_argument("--markdown", type=Path, help="file for the tables")
    parser.add_argument("--schemes", action="store_true", help="compare the schemes instead")
    parser.add_argument(
        "--processor-time", action="store_true", help="of the schemes, where the machine has other load"
    )
    args = parser.parse_args()
    use_all_cores()
    pythons = {peer: args.peers_python if peer in ELSEWHERE else sys.executable for peer in args.peers}
    clock = time.process_time if args.processor_time else time.perf_counter
    compared = compare_schemes(args.turns, clock=clock) if args.schemes else ""
    tables = compared or compare_peers(args.workloads, pythons, args.turns, args.settings)
    print(f"\n{tables}")
    if args.markdown:
        args.markdown.write_text(f"{tables}\n")


if __name__ == "__main__":
    main()
