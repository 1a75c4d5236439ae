"""A long run of a tiny task: whether memory, open files and the time of a round stay as they were.

    python experiments/soak.py [--rounds 10000] [--config CONFIG] [key=value ...]

Prints, for every tenth of the run: resident memory, open files, median time of a round; then the slope of memory over
rounds after the first fifth, in bytes a round, and the last tenth's time over the second's. Exit code 1 if memory
grows by LARGEST_SLOPE or more, or if files are left open.
"""

from __future__ import annotations

import argparse
import gc
import sys
import tempfile
import time
from collections.abc import Sequence
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
LARGEST_SLOPE = 1024.0
WARM_UP = 0.2


@dataclass(frozen=True)
class Soak:
    """Of every round: resident memory in bytes, open files, seconds."""

    memory: np.ndarray
    files: np.ndarray
    seconds: np.ndarray

    @property
    def slope(self) -> float:
        """Bytes of memory a round takes for good: of the straight line through what came after the warm-up."""
        first = int(WARM_UP * len(self.memory))
        later = self.memory[first:].astype(float)
        return float(np.polyfit(np.arange(len(later)), later, 1)[0])

    @property
    def left_open(self) -> int:
        """Files that are open at the end and were not after the warm-up."""
        return int(self.files[-1] - self.files[int(WARM_UP * len(self.files))])

    @property
    def slower(self) -> float:
        """Median time of a round in the last tenth over that in the second."""
        tenth = len(self.seconds) // 10
        return float(np.median(self.seconds[-tenth:]) / np.median(self.seconds[tenth : 2 * tenth]))


def soak(settings: Settings, out: Path) -> Soak:
    """Run the settings, and look after every round."""
    seen = np.zeros((settings.run.rounds, 3))
    began = time.perf_counter()

    def look(done: int, rounds: int, record: object) -> None:
        seen[done - 1] = resident_bytes(), open_files(), time.perf_counter()

    gc.collect()
    airfl.run(settings, out, progress=look)
    return Soak(seen[:, 0], seen[:, 1], np.diff(seen[:, 2], prepend=began))


def resident_bytes() -> int:
    """Of this process, as Linux counts them."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def open_files() -> int:
    """Descriptors that this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


def report(found: Soak) -> list[str]:
    """The lines that are printed."""
    lines = [f"{'rounds':>14} {'memory MB':>10} {'files':>6} {'ms a round':>11}"]
    for part in np.array_split(np.arange(len(found.memory)), 10):
        first, last = int(part[0]), int(part[-1])
        lines.append(
            f"{first + 1:>6}..{last + 1:<6} {found.memory[last] / 1e6:>10.2f} {found.files[last]:>6.0f}"
            f" {1e3 * np.median(found.seconds[part]):>11.2f}"
        )
    lines.append(
        f"memory grows by {found.slope:.0f} bytes a round after the first fifth; {found.left_open} files left open; "
        f"a round of the last tenth takes {found.slower:.2f} times one of the second"
    )
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10_000)
    parser.add_argument("--config", type=Path, default=DEMO)
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE")
    given = parser.parse_args(arguments)
    settings = airfl.load_settings(given.config, [*TINY, f"run.rounds={given.rounds}", *given.overrides])
    with tempfile.TemporaryDirectory(prefix="airfl-soak-") as folder:
        found = soak(settings, Path(folder) / "run")
    print("\n".join(report(found)))
    return int(found.slope >= LARGEST_SLOPE or found.left_open > 0)


if __name__ == "__main__":
    sys.exit(main())
