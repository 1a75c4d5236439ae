"""Progress of runs and sweeps: times by a simulated clock, and notices on separate lines."""

import io
import math
import re
import signal
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import pytest
from rich.console import Console

from airfl.core.progress import Bars, Planned, RoundProgress, round_progress
from airfl.core.record import KeptRecord
from airfl.runtime.interrupt import NOTICE, asked_to_stop
from airfl.runtime.time_left import Pace, RunLength, duration, typical
from airfl.study.sweeps.progress import Shown, sweep_progress
from airfl.study.sweeps.sweep import Status

ROUNDS, EVERY = 300, 10
NAN = {"test_accuracy": math.nan}


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl-C raises KeyboardInterrupt, though whoever runs the tests in the background may have it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Clock:
    """Stands still until it is moved."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def round_times() -> list[float]:
    """A round of 1 s, give or take a third; the first compiles for 30 s, an evaluation takes 20, one round in 60 waits
    for the disk for 15."""
    generator = np.random.default_rng(3)
    times = generator.uniform(0.7, 1.3, ROUNDS)
    times[0] += 30
    times[EVERY - 1 :: EVERY] += 20
    times[generator.random(ROUNDS) < 1 / 60] += 15
    return times.tolist()


def record(done: int, every: int = EVERY) -> dict[str, float]:
    return {"test_accuracy": 0.5} if done % every == 0 else NAN


def seconds(text: str) -> float:
    """Back from `duration`."""
    units = {"s": 1, "min": 60, "h": 3600}
    return sum(int(number) * units[unit] for number, unit in re.findall(r"(\d+) (s|min|h)\b", text))


def told(lines: Sequence[str], what: str) -> list[tuple[float, float]]:
    """(elapsed, left) of the lines that say for sure how much is left."""
    found = (re.search(rf"((?:\d+ \w+ ?)+) elapsed, ((?:\d+ \w+ ?)+) left{what}(?:;|$)", line) for line in lines)
    return [(seconds(match[1]), seconds(match[2])) for match in found if match]


def test_the_time_left_of_a_run_does_not_jump(capsys: pytest.CaptureFixture[str]) -> None:
    """Elapsed and left together are the whole, which is nearly the same in every line from the first evaluation on."""
    clock, times = Clock(), round_times()
    progress = RoundProgress(None, [Planned("a", "a", RunLength(ROUNDS, EVERY))], clock)
    report = progress.reporter("a")
    for done, took in enumerate(times, 1):
        clock.now += took
        report(done, ROUNDS, record(done))
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "a: round 1/300, 31 s elapsed"
    assert lines[-1] == f"a: round 300/300, accuracy 50.0%, done in {duration(sum(times))}"
    whole = np.array([sum(pair) for pair in told(lines, "")])
    assert len(whole) > 50
    assert np.abs(whole / sum(times) - 1).max() < 0.1
    assert np.abs(np.diff(whole)).max() < 0.06 * sum(times)
    # Before an evaluation has been seen a bound is told, as one.
    bounds = [line for line in lines if "at least" in line]
    assert all(int(re.search(r"round (\d+)/", line)[1]) < EVERY for line in bounds)  # type: ignore[index]
    assert bounds


@pytest.mark.parametrize("every", [1, 7, 300, 1000])
def test_evaluations_ahead_are_counted(every: int) -> None:
    evaluated = [number for number in range(1, ROUNDS + 1) if number % every == 0 or number == ROUNDS]
    for done in (0, 1, 6, 7, 150, 299, 300):
        assert RunLength(ROUNDS, every).evaluations(done) == sum(number > done for number in evaluated)


def test_a_round_that_took_an_hour_counts_as_a_few() -> None:
    """The machine was asleep."""
    pace = Pace()
    for took in (*[1.0] * 50, 3600.0):
        pace.add(took, evaluated=False, first=False)
    left = pace.left(RunLength(151, 1000), 51)
    assert left is not None
    assert 100 <= left.seconds < 110
    assert typical([]) != typical([])


def test_rounds_that_were_done_before_take_no_time_now(capsys: pytest.CaptureFixture[str]) -> None:
    """A resumed run goes through what it has done in a moment."""
    clock = Clock()
    report = RoundProgress(None, [Planned("a", "a", RunLength(200, 1000))], clock).reporter("a")
    for done in range(1, 106):
        clock.now += 10 * (done > 100)
        report(done, 200, NAN if done > 100 else KeptRecord(NAN))
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1].startswith("a: round 105/200, 50 s elapsed, at least 15 min 50 s left")


def test_a_comparison_tells_the_whole(capsys: pytest.CaptureFixture[str]) -> None:
    """Which run of how many, and what is left of all; rows differ in their pace."""
    clock, rows = Clock(), ("slow", "quick")
    plan = [Planned(f"{row}, seed {seed}", row, RunLength(100, 10)) for row in rows for seed in (0, 1, 2)]
    report = RoundProgress(None, plan, clock).labelled_reporter()
    for planned in plan:
        for done in range(1, 101):
            clock.now += 2.0 if planned.row == "slow" else 1.0
            report(planned.label, done, 100, record(done))
    lines = capsys.readouterr().err.splitlines()
    last = "quick, seed 2: round 100/100, accuracy 50.0%, done in 1 min 40 s; run 6 of 6, all done in 15 min 0 s"
    assert lines[-1] == last
    assert any(line.startswith("slow, seed 1: ") and "; run 2 of 6, " in line for line in lines)
    whole = told(lines, " in all")
    assert len(whole) > 100
    assert clock.now - Clock.now == 900
    first = [sum(pair) for pair in whole if pair[0] < 500]  # before the quick row is met: as the slow one
    assert max(abs(value - 1200) for value in first) < 25
    last = [sum(pair) for pair in whole if pair[0] > 610]
    assert max(abs(value - 900) for value in last[2:]) < 50


def statuses(points: int, at_once: int, took: Sequence[float], clock: Clock) -> Iterator[Status]:
    """As many points at a time as there is room for; the clock at each."""
    begun, status = clock.now, Status(points, at_once=at_once)
    yield status
    free, ends = [begun] * at_once, []
    for one in took:
        start = min(free)
        free[free.index(start)] = start + one
        ends.append((start + one, one))
    for end, one in sorted(ends):
        clock.now = end
        status = status.after("p", None, one)
        yield status


@pytest.mark.parametrize("at_once", [1, 3, 8])
def test_the_time_left_of_a_sweep_does_not_jump(at_once: int) -> None:
    """Points end in bursts, as many as run at a time."""
    clock, whole = Clock(), []
    took, shown = np.random.default_rng(2).uniform(9.0, 11.0, 40).tolist(), Shown(clock)
    for status in statuses(40, at_once, took, clock):
        shown.tell(status)
        whole += [sum(pair) for pair in told([shown.times()], "")]
    end = clock.now - Clock.now
    assert len(whole) == 39
    assert max(abs(value - end) for value in whole) < 9 + 0.05 * end
    assert max(abs(after - before) for before, after in pairwise(whole)) < 5 + 0.04 * end
    assert shown.counts() == "40 of 40 points"
    assert shown.times() == f"done in {duration(end)}"


def test_a_point_that_fails_at_once_says_nothing_of_the_others() -> None:
    clock = Clock()
    shown, status = Shown(clock), Status(10)
    shown.tell(status)
    for cause, took in ((None, 10.0), ("wrong", 0.0), ("wrong", 0.0)):
        clock.now += took
        status = status.after("p", cause, took)
        shown.tell(status)
    assert shown.counts() == "1 of 10 points, 2 failed"
    assert shown.times() == "10 s elapsed, 1 min 10 s left"


def test_a_sweep_in_lines(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    with sweep_progress(Console(file=io.StringIO(), force_terminal=False), clock) as report:
        for status in statuses(3, 1, [10.0, 10.0, 10.0], clock):
            report(status)
    assert capsys.readouterr().err.splitlines() == [
        "0 of 3 points, 0 s elapsed",
        "1 of 3 points, 10 s elapsed, 20 s left",
        "2 of 3 points, 20 s elapsed, 10 s left",
        "3 of 3 points, done in 30 s",
    ]


def terminal(width: int) -> Console:
    """Its file keeps what is written."""
    return Console(file=io.StringIO(), force_terminal=True, width=width, height=40, _environ={})


def screen(console: Console) -> list[str]:
    """What is shown there: of the control sequences those that rich moves the cursor by."""
    assert isinstance(console.file, io.StringIO)
    lines, row, column, written = [""], 0, 0, console.file.getvalue()
    for piece in re.findall(r"\x1b\[[?\d;]*[A-Za-z]|\r|\n|[^\x1b\r\n]+", written):
        if piece == "\r":
            column = 0
        elif piece == "\n":
            row, column = row + 1, 0
            lines += [""] * (row + 1 - len(lines))
        elif piece == "\x1b[2K":
            lines[row] = ""
        elif match := re.fullmatch(r"\x1b\[(\d+)A", piece):
            row -= int(match[1])
        elif not piece.startswith("\x1b"):
            lines[row] = lines[row].ljust(column)[:column] + piece + lines[row][column + len(piece) :]
            column += len(piece)
            assert column <= console.width
    return [line.rstrip() for line in lines]


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("runs", [1, 6])
def test_an_interrupt_is_told_on_a_line_of_its_own(runs: int) -> None:
    """Below the bars, which stay whole; whatever was being written when the signal came."""
    clock, console = Clock(), terminal(150)
    plan = [Planned(f"run-{number}", "row", RunLength(10, 5)) for number in range(runs)]
    with round_progress(plan, console, clock) as progress, asked_to_stop() as asked:
        report = progress.labelled_reporter()
        for planned in plan:
            for done in range(1, 6):
                clock.now += 2
                report(planned.label, done, 10, record(done, 5))
        console.file.write("^C")  # as the terminal shows it
        signal.raise_signal(signal.SIGINT)
        assert asked()
    lines = [line for line in screen(console) if line]
    assert lines.count(NOTICE) == 1
    assert lines[-1] == NOTICE
    assert len(lines) == runs + 1 + (runs > 1)
    assert all(re.match(r"(run-\d|all runs) ", line) for line in lines[:-1])
    assert f"{2 * 5} s elapsed, 10 s left" in lines[-2] or runs > 1


def test_bars_label_what_is_elapsed_and_what_is_left() -> None:
    clock, console = Clock(), terminal(200)
    plan = [Planned(name, name, RunLength(10, 5)) for name in ("[b]a[/]", "b")]
    with round_progress(plan, console, clock) as progress:
        report = progress.labelled_reporter()
        for done in range(1, 7):
            clock.now += 2
            report("[b]a[/]", done, 10, record(done, 5))
    shown = "\n".join(screen(console))
    assert re.search(r"all runs .* 6/20 +run 1 of 2, 12 s elapsed, 28 s left in all", shown)
    assert re.search(r"\[b\]a\[/\] .* 6/10 accuracy 50.0% 12 s elapsed, 8 s left", shown)


def test_between_rounds_the_time_left_runs_down() -> None:
    """By a round at most, and never below nothing."""
    clock = Clock()
    progress = RoundProgress(None, [Planned("a", "a", RunLength(20, 100))], clock)
    report = progress.reporter("a")
    for done in range(1, 11):
        clock.now += 10
        report(done, 20, NAN)
    run = progress._runs["a"]
    left = [run.left(clock.now + later) for later in (0.0, 4.0, 1000.0)]
    assert [one.seconds for one in left if one] == [100, 96, 90]


@pytest.mark.usefixtures("interruptible")
def test_without_a_terminal_the_notice_is_a_line(capfd: pytest.CaptureFixture[str]) -> None:
    with asked_to_stop() as asked:
        signal.raise_signal(signal.SIGINT)
        assert asked()
    assert capfd.readouterr().err == f"{NOTICE}\n"
    assert Bars(console=Console(file=io.StringIO())).get_renderables()
