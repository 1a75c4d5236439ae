"""Draw one figure for each channel effect, which shows its influence on the aggregate (explained in
docs/channels/NAME.md).

python experiments/channel_effects.py --out docs/channels [--only NAME ...] [--rounds N]

The effects are functions in the folder of the same name. Each prints its caption and the numbers that its page quotes.
Figures of pages of docs/schemes are drawn with --only.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from channel_effects import EFFECTS, OF_SCHEMES
from channel_effects.drawing import blank, save
from channel_effects.rounds import MOST_ROUNDS

ALL = {**EFFECTS, **OF_SCHEMES}


def main() -> None:
    """Draw the requested effects."""
    parser = argparse.ArgumentParser(description="Draw one figure for each channel effect.")
    parser.add_argument("--out", type=Path, required=True, help="folder for the figures")
    parser.add_argument("--only", nargs="+", choices=list(ALL), metavar="NAME", help=", ".join(ALL))
    rounds = "at most N rounds per point, for a quick preview with different numbers"
    parser.add_argument("--rounds", type=int, default=sys.maxsize, metavar="N", help=rounds)
    arguments = parser.parse_args()
    if arguments.rounds < 1:
        parser.error(f"argument --rounds: must be at least 1, got {arguments.rounds}")
    MOST_ROUNDS.set(arguments.rounds)
    for name in arguments.only or EFFECTS:
        start = time.monotonic()
        figure = blank()
        numbers = ALL[name](figure)
        file = save(figure, arguments.out / f"{name}.png")
        short = "" if arguments.rounds == sys.maxsize else f", at most {arguments.rounds} rounds a point"
        print(f"{name} ({time.monotonic() - start:.0f} s{short}): {file}")
        for line in (caption(name), *numbers):
            print(f"  {line}")


def caption(name: str) -> str:
    """Return the caption of the figure: what the panels show, and how much was simulated."""
    return " ".join((ALL[name].__doc__ or "").split())


if __name__ == "__main__":
    main()
