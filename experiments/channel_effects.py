"""One figure for each effect of the channel: what it does to the aggregate. docs/channels.md shows and explains them.

python experiments/channel_effects.py --out docs/channels [--only NAME ...]

The effects are in the folder of the same name, one function each; every one prints its caption and the figures
that the page quotes.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from channel_effects import EFFECTS
from channel_effects.drawing import blank, save


def main() -> None:
    """Draw the effects that are asked for."""
    parser = argparse.ArgumentParser(description="One figure for each effect of the channel.")
    parser.add_argument("--out", type=Path, required=True, help="folder for the figures")
    parser.add_argument("--only", nargs="+", choices=list(EFFECTS), metavar="NAME", help=", ".join(EFFECTS))
    arguments = parser.parse_args()
    for name in arguments.only or EFFECTS:
        start = time.monotonic()
        figure = blank()
        numbers = EFFECTS[name](figure)
        file = save(figure, arguments.out / f"{name}.png")
        print(f"{name} ({time.monotonic() - start:.0f} s): {file}")
        for line in (caption(name), *numbers):
            print(f"  {line}")


def caption(name: str) -> str:
    """What the panels show, and how much was simulated."""
    return " ".join((EFFECTS[name].__doc__ or "").split())


if __name__ == "__main__":
    main()
