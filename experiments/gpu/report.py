"""The report of all stages: FOLDER/gpu.json and FOLDER/gpu.md."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from experiments.gpu.rows import Given, Row
from experiments.gpu.running import FAILED, PASSED, Result, read
from experiments.gpu.stages import STAGES

MARKS = {True: "passed", False: "FAILED", None: ""}


def verdict(results: dict[str, Result | None]) -> str:
    """Return the first line of the report: which stages failed, and which are untried."""
    failed = [f"{name} ({len(one.failed)} of {len(one.rows)} rows)" for name, one in _of(results, FAILED)]
    untried = [name for name, one in results.items() if one is None or one.status not in (PASSED, FAILED)]
    parts = [f"Failed: {', '.join(failed)}."] if failed else []
    parts += [f"Untried: {', '.join(untried)}."] if untried else []
    return " ".join(parts) or "Every stage ran, and every check passed."


def _of(results: dict[str, Result | None], status: str) -> Iterable[tuple[str, Result]]:
    return ((name, one) for name, one in results.items() if one is not None and one.status == status)


def table(rows: Sequence[Row]) -> str:
    """Return rows as a Markdown table."""
    lines = ["| what | value | limit or goal | |", "| :--- | :--- | :--- | :--- |"]
    for row in rows:
        cells = (row.what, row.value, row.limit, MARKS[row.passed])
        lines.append("| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |")
    return "\n".join(lines)


def write_report(folder: Path, given: Given) -> bool:
    """Write both files from the results in the folder. Returns whether no stage has failed."""
    results = {name: read(folder, name, given) for name in STAGES}
    first = verdict(results)
    parts = [first, f"Device: {given.place}{', small sizes' if given.small else ''}."]
    for name, result in results.items():
        if result is not None:
            title = f"## {name}: {result.status}, {result.seconds:.1f} s"
            parts.append(
                "\n\n".join([title, f"{STAGES[name].text[0].upper()}{STAGES[name].text[1:]}.", table(result.rows)])
            )
    (folder / "gpu.md").write_text("\n\n".join(parts) + "\n")
    whole = {
        "verdict": first,
        "place": given.place,
        "small": given.small,
        "stages": {name: result and asdict(result) for name, result in results.items()},
    }
    (folder / "gpu.json").write_text(json.dumps(whole, indent=1) + "\n")
    return not any(_of(results, FAILED))
