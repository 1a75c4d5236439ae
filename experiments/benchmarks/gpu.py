"""Check and measure everything that airfl does on a GPU, in one command of a few minutes.

    python experiments/benchmarks/gpu.py                     # on a GPU, all stages, eight minutes
    python experiments/benchmarks/gpu.py --minutes 20        # goes on where the last call stopped
    python experiments/benchmarks/gpu.py --device cpu --small --out runs/gpu-cpu   # the same code, without a GPU

Each stage is a process of its own with a time limit. Its result is written at once to OUT/STAGE.json, and what it
prints to OUT/STAGE.log; OUT/gpu.md has the tables of all stages and OUT/gpu.json the same with tracebacks. Stages that
are finished are not repeated, and failed ones only with --again. Exit code 1 if a check failed. With --device imitated,
tensors lie in main memory and are checked as those of a GPU (experiments/gpu/imitation.py). On a machine without a
package index, experiments/gpu/bundle.sh brings what is missing.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from experiments.gpu.report import write_report
from experiments.gpu.rows import CUDA, DEVICES, Given
from experiments.gpu.running import run_stages
from experiments.gpu.stages import STAGES


def main() -> int:
    """Run the stages and write the report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--device", choices=DEVICES, default=CUDA, help="where the stages run (default cuda)")
    parser.add_argument("--out", type=Path, default=Path("runs/gpu"), metavar="FOLDER", help="default: runs/gpu")
    parser.add_argument("--stages", nargs="+", choices=list(STAGES), default=list(STAGES), metavar="NAME")
    parser.add_argument("--minutes", type=float, default=8.0, help="time for this call (default 8)")
    parser.add_argument("--jobs", type=int, default=1, help="checks at once, before the measurements (default 1)")
    parser.add_argument("--small", action="store_true", help="small sizes, which show that the stages work")
    parser.add_argument("--again", action="store_true", help="repeat failed stages")
    arguments = parser.parse_args()
    given = Given(arguments.device, arguments.small)
    with suppress(ImportError):  # the first stage says what is missing
        import airfl.simulation  # noqa: F401  imported once, for the processes of all stages
    try:
        stages = [STAGES[name] for name in arguments.stages]
        run_stages(stages, given, arguments.out, arguments.minutes, arguments.again, jobs=arguments.jobs)
    finally:
        passed = write_report(arguments.out, given)
        print((arguments.out / "gpu.md").read_text().partition("\n")[0], f"See {arguments.out / 'gpu.md'}.")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
