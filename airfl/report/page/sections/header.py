"""The top of the page: what was run, what failed, and how to see more."""

from __future__ import annotations

import shlex
from collections import Counter
from typing import Any

from airfl.report.page.view import PageView
from airfl.report.table import STATES, untuned
from airfl.runtime.numbers import counted
from airfl.version import __version__

COMMANDS = (("results", ""), ("figures", " --out FOLDER"))


def header(view: PageView) -> dict[str, Any]:
    """Return title, counts, notes, failed points with their causes, and runs that cannot be read."""
    failed = [{"folder": folder, "cause": cause} for folder, cause in view.results.failed.items()]
    unreadable = [{"folder": "", "cause": line} for line in view.results.unreadable.values()]
    faults = [(f"{counted(len(failed), 'point')} failed:", failed)] if failed else []
    faults += [(f"{len(unreadable):,} left out:", unreadable)] if unreadable else []
    return {
        "folders": view.folders,
        "what_was_run": _what_was_run(view),
        "notes": _warnings(view),
        "faults": faults,
        "version": __version__,
        "commands": _commands(view),
    }


def _what_was_run(view: PageView) -> str:
    runs, groups = len(view.results.runs), len(view.groups)
    schemes = sorted({group.scheme for group in view.groups})
    seeds = sorted({len(group.runs) for group in view.groups})
    rounds = sorted({run.digest.summary.rounds for run in view.results.runs})
    parts = [
        f"{counted(runs, 'run')} in {counted(groups, 'group')}",
        f"{_span(seeds)} seed{'' if seeds == [1] else 's'} a group",
        f"{_span(rounds)} round{'' if rounds == [1] else 's'}",
        f"scheme{'' if len(schemes) == 1 else 's'}: {', '.join(schemes)}",
    ]
    if view.results.axes:
        parts.append(f"swept: {', '.join(view.results.axes)}")
    return "; ".join(parts) + "."


def _warnings(view: PageView) -> list[str]:
    """Return notes on runs that were not tuned, are missing, or were interrupted."""
    said = [text] if (text := untuned(view.rows).strip()) else []
    if view.results.missing:
        said.append(f"{counted(view.results.missing, 'point')} of the sweep not yet run: the page is not complete.")
    states = Counter(run.digest.summary.status for run in view.results.runs)
    for status, count in states.items():
        if status != "complete":
            runs = counted(count, f"{STATES.get(status, status)} run")
            last = "with accuracy and ε of the run at the last evaluated round"
            said.append(f"{runs}: taken as far as the trace goes, {last}.")
    stopped = sorted({run.digest.summary.rounds for run in view.results.runs if run.digest.summary.stopped_early})
    if stopped:
        said.append(f"Runs were stopped early, after {_span(stopped)} rounds: their costs and ε are of those rounds.")
    return said


def _commands(view: PageView) -> list[str]:
    folders = [shlex.quote(str(folder)) for folder in view.folders]
    outs = ["FOLDER"] if len(folders) == 1 else [f"FOLDER-{number}" for number in range(1, len(folders) + 1)]
    return [
        *(f"airfl {name} {' '.join(folders)}{options}" for name, options in COMMANDS),
        *(f"airfl export {folder} --to csv --out {out}" for folder, out in zip(folders, outs, strict=True)),
    ]


def _span(values: list[int]) -> str:
    return f"{values[0]:,}" if len(values) == 1 else f"{values[0]:,} to {values[-1]:,}"
