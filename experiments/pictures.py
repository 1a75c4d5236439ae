"""Redraw the figures of a documentation page with the commands that the page shows.

    python experiments/pictures.py docs/figures.md [--work DIR] [--jobs 2] [--list]

Runs every `airfl` command in the shell blocks of the page, in order, with runs/ inside DIR. DIR is kept, so that
complete runs are not repeated. Existing figures of the page are replaced only after all commands have succeeded.
"""

from __future__ import annotations

import argparse
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"```sh\n(.*?)```", re.DOTALL)


def commands(page: Path) -> list[list[str]]:
    """Return the words of every command of the page."""
    lines = (line for block in BLOCK.findall(page.read_text()) for line in block.replace("\\\n", " ").splitlines())
    return [shlex.split(line, comments=True) for line in lines if line.startswith("airfl ")]


def placed(words: list[str], work: Path, jobs: int) -> list[str]:
    """Return the command with runs/ and docs/ inside `work`."""
    inside = [str(work / word) if word.startswith(("runs/", "docs/")) else word for word in words]
    more = ["--jobs", str(jobs)] if words[1] == "sweep" and "--jobs" not in words else []
    return [sys.executable, "-m", *inside, *more]


def main() -> None:
    """Run the commands and copy the figures."""
    parser = argparse.ArgumentParser(description="Redraw the figures of a documentation page with its commands.")
    parser.add_argument("page", type=Path, help="a page of docs/")
    parser.add_argument("--work", type=Path, default=ROOT / "runs" / "pictures", help="folder for runs, which is kept")
    parser.add_argument("--jobs", type=int, default=1, help="number of parallel points of a sweep")
    parser.add_argument("--list", action="store_true", help="print the commands without running them")
    args = parser.parse_args()
    if args.list:
        print("\n".join(f"$ {shlex.join(words)}" for words in commands(args.page)))
        return
    drawn = args.work / "docs"
    shutil.rmtree(drawn, ignore_errors=True)
    for words in commands(args.page):
        print("$", shlex.join(words), flush=True)
        if subprocess.run(placed(words, args.work, args.jobs), cwd=ROOT, check=False).returncode:
            raise SystemExit(f"failed: {shlex.join(words)}")
    for file in sorted(drawn.rglob("*")):
        if file.is_file():
            target = ROOT / "docs" / file.relative_to(drawn)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target)
            print(target.relative_to(ROOT))


if __name__ == "__main__":
    main()
