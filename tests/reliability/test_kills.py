"""Processes killed at any moment are resumed from what they left, and the trace equals that of an uninterrupted run."""

import random
import signal
import time
from pathlib import Path

import pytest

from tests.processes import KILL_BEFORE, KILL_MIDWAY, Child, Parent
from tests.reliability.finished import finish, is_complete, whole
from tests.reliability.refusals import case
from tests.reliability.scale import FULL, Measured, cases

SHORT = ("run.rounds=4", "run.checkpoint_every=1", "run.evaluate_every=4")
STEPS = ("run.rounds=40", "run.checkpoint_every=1", "run.evaluate_every=40")
"""Enough for a signal to meet a run that is at its third."""
LONG = ("run.rounds=1000", *STEPS[1:]) if FULL else STEPS
ENDLESS = ("run.rounds=100000", "run.checkpoint_every=1", "run.evaluate_every=100000")


def latest(out: Path) -> int:
    """After how many rounds the last state was saved."""
    return max((int(path.name.rpartition("-")[2]) for path in (out / "checkpoint").glob("state-*")), default=0)


def test_many_kills_at_random_moments_of_one_run(parent: Parent, tmp_path: Path, measured: Measured) -> None:
    seed = random.randrange(10**6) if FULL else 3
    print(f"seed {seed}")  # pytest shows it where the test fails
    drawn, out, wanted, kills = random.Random(seed), tmp_path / "out", cases(3, 20), 0
    rounds = int(LONG[0].partition("=")[2])
    for number, target in enumerate(sorted(drawn.randrange(int(0.8 * rounds)) for _ in range(wanted))):
        child = parent.run(out, *LONG, "--resume")
        if number % 3:  # else while it reads what was saved, and makes the trace anew
            child.until(lambda target=target: latest(out) >= target)
        time.sleep(drawn.uniform(0, 0.05 if number % 3 else 0.4))
        child.send(signal.SIGKILL)
        assert child.wait() in (-signal.SIGKILL, 0), child.stderr
        kills += child.wait() != 0
        assert is_complete(out) or child.wait() != 0
        if is_complete(out):  # even of one that was killed just before it would have ended
            break
    assert kills == wanted or not FULL
    reached = latest(out)
    finish(out, *LONG)
    assert [file.name for file in out.iterdir()] == ["trace.h5"]
    measured(f"kills: {kills} SIGKILL in {rounds} rounds, the last after round {reached} (seed {seed}): same trace")


def test_a_kill_at_every_call_that_writes(parent: Parent, tmp_path: Path, measured: Measured) -> None:
    """Before the call, or when half of it is done; every fifth run is killed once more, resumed."""
    child = parent.run(tmp_path / "all", *SHORT, fault=(0, KILL_BEFORE))
    assert child.wait() == 0
    calls = child.calls
    last = calls - 200  # up to there it creates the trace, by many small calls, of which every third will do
    every = [n for n in range(1, calls + 1) if n < 15 or n > last or not n % 3]
    tried = every if FULL else [2, calls - 90, calls - 40, calls - 3]
    killed = 0
    for place, nth in enumerate(tried):
        out = tmp_path / str(nth)
        child = parent.run(out, *SHORT, fault=(nth, (KILL_BEFORE, KILL_MIDWAY)[nth % 2]))
        killed += child.wait() == -signal.SIGKILL
        if place % 5 == 2:
            child = parent.run(out, *SHORT, "--resume", fault=(1 + 37 * nth % calls, KILL_MIDWAY))
            killed += child.wait() == -signal.SIGKILL
        with case(f"killed at call {nth} of {calls}"):
            finish(out, *SHORT)
        assert [file.name for file in out.iterdir() if file.name != "checkpoint"] == ["trace.h5"]
    assert killed >= len(tried) - 10  # calls that are made or not, by the time of day
    measured(f"kills: {killed} at calls that write (a run makes {calls} of them): same trace")


def begun(parent: Parent, out: Path, *overrides: str) -> Child:
    """A process that is at its rounds."""
    child = parent.run(out, *overrides)
    child.until(lambda: latest(out) > 2)
    return child


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_who_is_asked_to_stop_ends_the_round_and_saves(number: signal.Signals, parent: Parent, tmp_path: Path) -> None:
    out = tmp_path / "out"
    child = begun(parent, out, *LONG)
    child.send(number)
    line = child.refused(130)
    rounds = latest(out)
    assert f"{out}: interrupted after round {rounds} of " in line
    assert "--resume" in line
    assert "stopping after this round" in child.stderr
    assert not is_complete(out)
    finish(out, *LONG)


def test_who_asks_twice_does_not_wait(parent: Parent, tmp_path: Path) -> None:
    out = tmp_path / "out"
    child = begun(parent, out, *LONG)
    for number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGINT, signal.SIGCONT):  # so that both are there at once
        child.send(number)
    assert child.refused(130) == f"airfl: {out}: interrupted; resume it with the same command and --resume"
    assert "stopping after this round" in child.stderr
    finish(out, *LONG)


def test_sigterm_before_the_first_round(parent: Parent, tmp_path: Path) -> None:
    out = tmp_path / "out"
    child = parent.run(out, *SHORT)
    child.until((out / "checkpoint" / "lock").exists)
    child.send(signal.SIGTERM)
    assert child.wait() in (130, 0)
    if not is_complete(out):
        begun = (out / "checkpoint").exists()
        assert ("resume it with the same command and --resume" in child.refused(130)) == begun
    finish(out, *SHORT)


def test_signals_at_random_moments(parent: Parent, tmp_path: Path, measured: Measured) -> None:
    drawn, ended = random.Random(5), []
    for number in range(cases(2, 60)):
        out = tmp_path / str(number)
        child = parent.run(out, *STEPS)
        time.sleep(drawn.uniform(0, 0.35))
        child.send(drawn.choice([signal.SIGINT, signal.SIGTERM]))
        # Interrupted inside exec(), as in the making of a dataclass, Python ends itself by SIGINT: a shell's 130 too.
        ended.append(130 if child.wait() == -signal.SIGINT else child.wait())
        assert ended[-1] in (130, 0), child.stderr
        assert "Traceback" not in child.stderr
        assert "Exception ignored" not in child.stderr
        finish(out, *STEPS)
    measured(f"signals: {len(ended)} runs met one at a random moment, {ended.count(130)} were cut off: same trace")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_in_a_destructor_is_repeated(number: signal.Signals, parent: Parent, tmp_path: Path) -> None:
    """Python ignores what is raised there, and C code elsewhere does the same."""
    file = tmp_path / "interrupted.py"
    file.write_text(f"""
import os, time
from airfl import cli

class Deleted:
    def __del__(self):
        os.kill(os.getpid(), {number:d})
        time.sleep(0.001)

def command(standalone_mode):
    Deleted()
    time.sleep(20)

cli.app = command
cli.main()
""")
    assert parent.start(script=file).refused(130) == "airfl: interrupted"


def test_an_interrupt_that_compiled_code_renames_is_one(parent: Parent, tmp_path: Path) -> None:
    """pydantic's validators turn it into a SchemaError, for instance, while airfl starts."""
    file = tmp_path / "renamed.py"
    file.write_text("""
import os, signal, time
from airfl import cli

def command(standalone_mode):
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(20)
    except KeyboardInterrupt:
        raise ValueError("KeyboardInterrupt")

cli.app = command
cli.main()
""")
    assert parent.start(script=file).refused(130) == "airfl: interrupted"


def test_a_complete_run_says_so(parent: Parent) -> None:
    child = parent.run(whole(*SHORT), *SHORT, "--resume")
    assert child.wait() == 0
    assert "already complete, 4 rounds" in child.stderr
    assert "accuracy" in child.stdout
