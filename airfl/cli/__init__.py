"""The command line interface.

Exit codes: 0 success, 2 invalid input, 1 a failure of the machine or a bug, 130 interrupted. Settings are validated
before torch is imported. Messages go to standard error, one line each.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import NoReturn

import typer

from airfl.cli import completion
from airfl.cli.app import app, say
from airfl.cli.audit import audit
from airfl.cli.bench import bench
from airfl.cli.channel import channel_app
from airfl.cli.check import check
from airfl.cli.data import data_app
from airfl.cli.doctor import doctor
from airfl.cli.export import export
from airfl.cli.figures import figures
from airfl.cli.help import Command, how_to_call
from airfl.cli.lists import config, configs, datasets, models, schemes
from airfl.cli.privacy import privacy
from airfl.cli.report import report
from airfl.cli.runs import budget, compare, plot, run
from airfl.cli.sweeps import results, sweep
from airfl.cli.theory import theory
from airfl.cli.tune import tune
from airfl.cli.verify import verify
from airfl.cli.watch import watch
from airfl.errors import MachineError, RunInterruptedError, UserError
from airfl.runtime.text import let_streams_fall_back
from airfl.storage.cache import give_libraries_a_place

# Heading -> (command, example), in the order of --help. The examples can be run unchanged.
COMMANDS: dict[str, tuple[tuple[Callable[..., None], str], ...]] = {
    "Run": (
        (run, "airfl run demo scheme.name=wfl-p run.rounds=50 --out runs/first"),
        (compare, "airfl compare demo --schemes pfels,fedavg --seeds 3 --out runs/two"),
        (sweep, "airfl sweep demo scheme.ratio=0.1,0.3,1.0 --seeds 3 --out runs/ratios"),
        (
            tune,
            "airfl tune demo local.learning_rate=0.02,0.05,0.1 \\\n"
            "    task.validation_share=0.1 --schemes pfels --out runs/tuning",
        ),
    ),
    "Before a long run": (
        (budget, "airfl budget pfels-cifar10 scheme.name=wfl-p"),
        (
            privacy,
            "airfl privacy pfels-cifar10\n"
            "airfl privacy --noise-multiplier 1 --sampling-rate 0.032 --rounds 2000 \\\n    --delta 1e-3",
        ),
        (theory, "airfl theory demo local.momentum=0.0"),
        (audit, "airfl audit demo --others silent"),
        (bench, "airfl bench demo --profile"),
        (check, "airfl check my_parts.py"),
    ),
    "Look at runs": (
        (watch, "airfl watch runs/first"),
        (results, "airfl results runs/ratios --at energy --target 0.75"),
        (report, "airfl report runs/ratios"),
        (figures, "airfl figures runs/ratios --only accuracy-ratio,table --out runs/figures"),
        (plot, "airfl plot runs/first --out runs/first-plots"),
        (export, "airfl export runs/first --to mat --out runs/first-matlab"),
        (verify, "airfl verify runs/first-bundle/bundle.zip"),
    ),
    "What there is": (
        (configs, "airfl configs"),
        (config, "airfl config demo power.strict=true"),
        (schemes, "airfl schemes"),
        (models, "airfl models"),
        (datasets, "airfl datasets --json"),
        (doctor, "airfl doctor"),
    ),
}
for heading, commands in COMMANDS.items():
    for command, example in commands:
        app.command(cls=Command, rich_help_panel=heading, epilog=example)(command)
app.add_typer(data_app, rich_help_panel=heading)
app.add_typer(channel_app, rich_help_panel=heading)


RETRY_S = 0.01
"""Time after which an interrupt that was ignored is repeated."""
_asked_to_end: list[int] = []
"""Signals that were turned into a KeyboardInterrupt."""


def main() -> None:
    """Run a command. Every outcome becomes an exit code and at most one line on standard error."""
    _handle_signals(_interrupt)
    sys.unraisablehook = _interrupt_again
    let_streams_fall_back()
    completion.prepare(os.environ)
    give_libraries_a_place(os.environ)
    try:
        # Typer returns an exit code here after an interrupt and after --help.
        code = app(standalone_mode=False)
        if isinstance(code, int) and code:
            _end("interrupted", code)
        atexit.register(_handle_signals, signal.SIG_IGN)
    except UserError as error:
        _end(str(error), 2)
    except MachineError as error:
        _end(str(error), 1)
    except RunInterruptedError as error:
        _end(str(error), 130)
    except typer.Abort:
        _end("interrupted", 130)
    except KeyboardInterrupt:
        _end("interrupted", 130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        if os.environ.get("AIRFL_TRACEBACK"):
            raise
        prefix = f"{error.filename}: " if error.filename else "failed: "
        _end(f"{prefix}{error.strerror or error} (AIRFL_TRACEBACK=1 shows the traceback)", 1)
    except Exception as error:
        if _asked_to_end:  # compiled code has turned the KeyboardInterrupt into another exception
            _end("interrupted", 130)
        usage = getattr(error, "format_message", None)
        if usage and type(error).__name__ == "NoArgsIsHelpError":  # `airfl` without arguments
            typer.echo(usage(), err=True)
            sys.exit(2)
        if usage:
            message = usage().replace("Value error, ", "")  # of pydantic, which checks a Literal
            _end(f"{message}{how_to_call(error)}", getattr(error, "exit_code", 2))
        if os.environ.get("AIRFL_TRACEBACK"):
            raise
        _end(f"failed: {type(error).__name__}: {error} (AIRFL_TRACEBACK=1 shows the traceback)", 1)


def _handle_signals(handler: Callable[[int, FrameType | None], object] | signal.Handlers) -> None:
    """Install a handler for SIGINT and SIGTERM. A signal that is ignored stays ignored."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, handler)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    """Raise KeyboardInterrupt, so that the command can clean up; a second signal ends the process at once."""
    _handle_signals(lambda number, frame: os._exit(130))
    _asked_to_end.append(number)
    raise KeyboardInterrupt


def _interrupt_again(ignored: sys.UnraisableHookArgs) -> None:
    """Repeat an interrupt that was raised where exceptions are ignored, in a destructor for instance."""
    if ignored.exc_type is not KeyboardInterrupt or not hasattr(signal, "setitimer"):
        sys.__unraisablehook__(ignored)
        return
    _handle_signals(_interrupt)
    taken = [number for number in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(number) != signal.SIG_IGN]
    signal.signal(signal.SIGALRM, lambda number, frame: signal.raise_signal(taken[0]))
    signal.setitimer(signal.ITIMER_REAL, RETRY_S)


def _end(message: str, code: int) -> None:
    atexit.register(_handle_signals, signal.SIG_IGN)  # a signal during interpreter shutdown has no effect
    say(f"airfl: {message}")
    sys.exit(code)
