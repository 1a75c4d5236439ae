"""Soak test: long runs of a tiny task that check whether memory, open files and round time remain constant.

    python experiments/soak.py [--rounds 10000] [--config CONFIG] [key=value ...]

One run has a privacy ledger, whose lattices grow with the square root of the rounds, and one (FedAvg) has none.

Prints resident memory, open files and the median round time for every tenth of the run, then the slope of memory over
rounds after the first fifth in bytes per round, and the round time of the last tenth over that of the second. The exit
code is 1 if memory grows by as much as LARGEST_SLOPE says, or if files are left open. Memory is sampled a hundred
times, after pages that are free within the heap have been returned to the system.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import airfl
from airfl.config import Settings

DEMO = Path(__file__).parent / "configs" / "demo.toml"
TINY = (
    "task.dataset=a9a-sample",
    "task.model=logistic",
    "run.devices=100",
    "run.selected=4",
    "run.threads=1",
    "run.checkpoint_every=100",
    "local.epochs=0",
    "local.steps=1",
    "local.engine=vmap",
    "local.measure=false",
)
LARGEST_SLOPE = {"pfels": 4096.0, "fedavg": 512.0}
"""The schemes that are run, and the memory in bytes per round that each must stay below."""
WARM_UP = 0.2
SAMPLES = 100


@dataclass(frozen=True)
class Soak:
    """Resident memory in bytes, open files and seconds of every round."""

    memory: np.ndarray
    files: np.ndarray
    seconds: np.ndarray

    @property
    def slope(self) -> float:
        """Memory growth in bytes per round, by a linear fit after the warm-up."""
        first = int(WARM_UP * len(self.memory))
        later = self.memory[first:].astype(float)
        return float(np.polyfit(np.arange(len(later)), later, 1)[0])

    @property
    def left_open(self) -> int:
        """Number of open files at the end minus that after the warm-up."""
        return int(self.files[-1] - self.files[int(WARM_UP * len(self.files))])

    @property
    def slower(self) -> float:
        """Median round time of the last tenth over that of the second."""
        tenth = len(self.seconds) // 10
        return float(np.median(self.seconds[-tenth:]) / np.median(self.seconds[tenth : 2 * tenth]))


def soak(settings: Settings, out: Path) -> Soak:
    """Run the settings and sample the process after every round."""
    samples = np.zeros((settings.run.rounds, 3))
    every = max(1, settings.run.rounds // SAMPLES)
    memory = 0
    began = time.perf_counter()

    def sample(done: int, rounds: int, record: object) -> None:
        nonlocal memory
        samples[done - 1, 1:] = open_files(), time.perf_counter()
        if done == 1 or done % every == 0:
            return_free_pages()
            memory = resident_bytes()
        samples[done - 1, 0] = memory

    gc.collect()
    airfl.run(settings, out, progress=sample)
    return Soak(samples[:, 0], samples[:, 1], np.diff(samples[:, 2], prepend=began))


def return_free_pages() -> None:
    """Return free pages of the heap to the system (glibc)."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)


def resident_bytes() -> int:
    """Return the resident memory of this process (Linux)."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def open_files() -> int:
    """Return the number of open file descriptors of this process."""
    return len(list(Path("/proc/self/fd").iterdir()))


def report(result: Soak) -> list[str]:
    """Return the lines of the report."""
    lines = [f"{'rounds':>14} {'memory MB':>10} {'files':>6} {'ms a round':>11}"]
    for part in np.array_split(np.arange(len(result.memory)), 10):
        first, last = int(part[0]), int(part[-1])
        lines.append(
            f"{first + 1:>6}..{last + 1:<6} {result.memory[last] / 1e6:>10.2f} {result.files[last]:>6.0f}"
            f" {1e3 * np.median(result.seconds[part]):>11.2f}"
        )
    lines.append(
        f"memory grows by {result.slope:.0f} bytes a round after the first fifth; {result.left_open} files left open; "
        f"a round of the last tenth takes {result.slower:.2f} times one of the second"
    )
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the soak test and print the report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10_000, help="number of rounds")
    parser.add_argument("--config", type=Path, default=DEMO, help="a settings file")
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="overrides of settings")
    args = parser.parse_args(arguments)
    failed = False
    for scheme, largest in LARGEST_SLOPE.items():
        given = [*TINY, f"run.rounds={args.rounds}", *args.overrides, f"scheme.name={scheme}"]
        settings = airfl.load_settings(args.config, given)
        with tempfile.TemporaryDirectory(prefix="airfl-soak-") as folder:
            result = soak(settings, Path(folder) / "run")
        print("\n".join([scheme, *report(result)]), flush=True)
        failed |= result.slope >= largest or result.left_open > 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
