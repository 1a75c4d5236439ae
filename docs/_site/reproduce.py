"""Write the tables of docs/reproduce.md: the commands and seeds of every figure, and of every data file.

    python docs/_site/reproduce.py     # writes them into the page

The commands are read from the pages, where they stand under the figures, and from the first lines of the data files.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1]
ROOT = DOCS.parent
PAGE = DOCS / "reproduce.md"
RESULTS = ROOT / "experiments" / "results"
FIGURE = re.compile(r"!\[[^\]]+\]\(([^)\s]+)\)")
SHELL = re.compile(r"^```sh\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)
TAKE_SETTINGS = ("run", "compare", "sweep", "budget")
"""Commands of airfl whose random numbers follow from run.seed of the settings."""
NONE, IN_SCRIPT = "none", "in the script"
SCRIPTS = {"python": IN_SCRIPT, "airfl privacy": NONE, "airfl figures": NONE, "airfl plot": NONE, "airfl channel": "1"}
"""Beginning of a command -> its seeds. Those of a script are in its code; that of the ray tracer is 1 by default."""


def pages() -> list[Path]:
    """Return the pages that are written by hand."""
    made = (DOCS / "reference", DOCS / "_site")
    return sorted(page for page in DOCS.rglob("*.md") if not any(folder in page.parents for folder in made))


def commands_of(text: str) -> list[str]:
    """Return the commands of a shell block, without comments, lines that go on joined."""
    lines = (re.sub(r"\s+# .*", "", line).strip() for line in text.replace("\\\n", " ").splitlines())
    return [" ".join(line.split()) for line in lines if line and not line.startswith("#")]


def figures(page: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield each figure of a page with the commands that make it.

    These are the commands of the block under it, after those earlier in the page that write the runs which they read.
    """
    text = page.read_text(encoding="utf-8")
    for shown in FIGURE.finditer(text):
        block = SHELL.search(text, shown.end())
        assert block is not None, f"{page}: {shown[1]} has no command"
        below = commands_of(block[1])
        before = [one for earlier in SHELL.finditer(text[: block.start()]) for one in commands_of(earlier[1])]
        read = {word for one in below for word in shlex.split(one) if word.startswith("runs/")}
        needed = [one for one in before if "--out" in one and shlex.split(one)[-1] in read and one not in below]
        yield shown[1], [*needed, *below]


def seeds_of(commands: Sequence[str]) -> str:
    """Return the seeds of some commands, in words."""
    found = list(dict.fromkeys(seeds for one in commands if (seeds := _seeds(one)) != NONE))
    return "; ".join(found) or NONE


def _seeds(command: str) -> str:
    if command == "make figure":
        recipe = (ROOT / "Makefile").read_text(encoding="utf-8").split("\nfigure:", 1)[1]
        return _seeds("airfl " + recipe.split("/airfl ", 1)[1].splitlines()[0].replace("$$", ""))
    words = command.split()
    if words[0] == "airfl" and words[1] in TAKE_SETTINGS:
        from airfl.config import load_rows, load_settings

        config = words[2]
        given = [word for word in words[3:] if word.startswith("run.seed=")]
        if "--rows" in words or words[1] == "compare":
            settings = load_rows(config, given)[0].settings
        else:
            settings = load_settings(config, given)
        count, first = int(words[words.index("--seeds") + 1]) if "--seeds" in words else 1, settings.run.seed
        return f"{first}" if count == 1 else f"{first} to {first + count - 1}"
    for beginning, seeds in SCRIPTS.items():
        if command.startswith(beginning):
            return seeds
    raise ValueError(f"{command}: the seeds of such a command are not known; add it to docs/_site/reproduce.py")


def of_figures() -> str:
    """Return the table of figures."""
    lines = ["| figure | commands | seeds |", "| :--- | :--- | :--- |"]
    for page in pages():
        for file, commands in figures(page):
            name = page.relative_to(DOCS).as_posix()
            shown = "<br>".join(f"`{command}`".replace("|", "\\|") for command in commands)
            lines.append(f"| [{Path(file).stem}]({name}) | {shown} | {seeds_of(commands)} |")
    return "\n".join(lines)


def of_data() -> str:
    """Return the table of the data files of experiments, from their first lines."""
    lines = ["| data in `experiments/results/` | command | version |", "| :--- | :--- | :--- |"]
    for file in sorted(RESULTS.glob("*.csv")):
        head = [line[2:] for line in file.read_text(encoding="utf-8").splitlines() if line.startswith("# ")]
        commands = [line for line in head if line.startswith("python ")]
        (version,) = (line for line in head if line.startswith("airfl "))
        assert commands, file
        lines.append(f"| `{file.name}` | {'<br>'.join(f'`{command}`' for command in commands)} | {version} |")
    return "\n".join(lines)


TABLES = {"figures": of_figures, "data": of_data}
"""Names of the marks in the page -> what stands between them."""


def filled(text: str) -> str:
    """Return the text of the page with new tables."""
    for name, table in TABLES.items():
        begin, end = f"<!-- made: {name} -->\n", f"<!-- end: {name} -->"
        head, rest = text.split(begin)
        text = f"{head}{begin}\n{table()}\n\n{end}{rest.split(end)[1]}"
    return text


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
