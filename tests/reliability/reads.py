"""`reads.py trace|replay|channel OUT FILE...` reads files with forked readers, and prints a line of JSON for each."""

import io
import json
import resource
import signal
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from airfl.errors import UserError
from tests.costs import spent
from tests.reliability.forked import forked_readers
from tests.reliability.scale import FULL

HANGS_S = 600
"""By the clock: more than any file takes on the busiest machine."""
FORMATS = ("csv", "npz", "mat", "sigmf", "channel", "bundle")
"""A file is exported to one of them, the next file to the next; with AIRFL_SOAK to all."""


def trace(file: Path, out: Path, place: int) -> str:
    """Everything that is read of traces: all values, tables, the report, figures, exports."""
    from airfl.analysis.results.digest import digest
    from airfl.analysis.results.equal_cost import COSTS
    from airfl.analysis.results.result import Result, Results
    from airfl.config import to_json
    from airfl.exports import export
    from airfl.report.figures import RecordedRounds, curves_of
    from airfl.report.page.page import html_page
    from airfl.report.page.view import PageView
    from airfl.report.results import equal_table, plain_results, results_table, target_table
    from airfl.report.table import TableRow, csv_table, markdown_table, terminal_table
    from airfl.storage.trace import open_trace

    def tabled() -> None:
        found = digest(opened)
        results = Results((Result(file.parent, "", {}, found.summary.seed, found),))
        rows = [TableRow("", [found.summary])]
        shown = [results_table(results, ""), target_table(results, 0.5), terminal_table(rows, "")]
        shown.append(equal_table(results, dict.fromkeys(COSTS, 1.0)))
        for table in shown:
            Console(file=io.StringIO(), width=200).print(table)
        found.summary.broken_claim()
        assert csv_table(rows) + markdown_table(rows) + to_json(plain_results(results))
        assert html_page(PageView(results, (file.parent,)))

    with open_trace(file) as opened:
        faults = []
        planned_rounds = RecordedRounds(file, opened)
        for name in opened.data_vars:
            faults.append(told(lambda name=name: opened[name].values))
        faults.append(told(tabled))
        faults.append(told(lambda: curves_of("", [planned_rounds])))
    for form in FORMATS if FULL else [FORMATS[place % len(FORMATS)]]:
        faults.append(told(lambda form=form: export(file, form, out / form)))
    return next((fault for fault in faults if fault), "")


def replay(file: Path, _out: Path, _place: int) -> str:
    """Gains of 3 rounds and 4 devices: finite and of that shape, or refused."""
    import numpy as np

    from channels.fading.replay import read_replay

    try:
        read = read_replay(file, rounds=3, devices=4, antennas=1)
    except ValueError as error:
        return one_line(str(error))
    assert read.gains.shape == (3, 4, 1)
    assert np.isfinite(read.gains).all()
    assert (np.isfinite(read.mean_power) & (read.mean_power >= 0)).all()
    assert ((read.mean_power > 0) | (read.gains == 0).all(axis=(0, 2))).all()
    return ""


def channel(file: Path, out: Path, _place: int) -> str:
    """A file of another tool, named after its kind, is imported and written as a run reads it, or refused."""
    from channels.imported import KINDS, Choice, RecordingError, write_channel

    options = {"bandwidth_hz": 50e6} if file.suffix == ".dichasus" else {}
    try:
        write_channel(KINDS[file.suffix[1:]](str(file), Choice(), **options), out)
    except RecordingError as error:
        return one_line(str(error))
    return ""


def told(action: Callable[[], object]) -> str:
    """The line it is refused with, or nothing."""
    try:
        action()
    except UserError as error:
        return one_line(str(error))
    return ""


def one_line(text: str) -> str:
    """Fails where it is more, or less."""
    assert text
    assert "\n" not in text, text
    assert len(text) < 600, text
    return text


READERS: dict[str, Callable[[Path, Path, int], str]] = {"trace": trace, "replay": replay, "channel": channel}


def main(kind: str, out: Path, files: list[Path]) -> None:
    """A line a file."""
    warnings.simplefilter("error")
    warnings.filterwarnings("ignore", "Starting field name")  # scipy, of what a .mat file has no name for
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for place, file in enumerate(files):
        signal.alarm(HANGS_S)
        begin = spent()
        try:
            fault = READERS[kind](file, out / file.name, place)
            ended = "refused" if fault else "read"
        except UserError as error:
            fault, ended = one_line(str(error)), "refused"
        except Exception:
            fault, ended = traceback.format_exc(), "traceback"
        now = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        about = {"file": file.name, "ended": ended, "line": fault, "s": spent() - begin}
        print(json.dumps({**about, "grown_mb": (now - before) / 1024}), flush=True)
        before = now


if __name__ == "__main__":
    with forked_readers():
        main(sys.argv[1], Path(sys.argv[2]), [Path(name) for name in sys.argv[3:]])
