"""The command line. Exit codes: 0 done, 2 the user's input, 1 a failure of ours or the machine's, 130 interrupted.

Settings are validated before torch is imported; messages go to standard error, one line each.
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

from airfl.cli.app import app, say
from airfl.cli.audit import audit
from airfl.cli.bench import bench
from airfl.cli.data import data_app
from airfl.cli.export import export
from airfl.cli.figures import figures
from airfl.cli.lists import config, configs, datasets, models, schemes
from airfl.cli.privacy import privacy
from airfl.cli.report import report
from airfl.cli.runs import budget, compare, plot, run
from airfl.cli.sweeps import results, sweep
from airfl.cli.tune import tune
from airfl.errors import MachineError, RunInterruptedError, UserError

# In the order of --help, each with its example.
COMMANDS = (
    (run, "airfl run experiments/configs/demo.toml scheme.name=wfl-p run.rounds=50 --out runs/wfl-p"),
    (compare, "airfl compare experiments/configs/demo.toml --schemes pfels,fedavg --seeds 3 --out runs/two"),
    (sweep, "airfl sweep experiments/configs/demo.toml scheme.ratio=0.1,0.3,1.0 --seeds 3 --jobs 2 --out runs/ratios"),
    (tune, "airfl tune CONFIG local.learning_rate=0.02,0.05,0.1 task.validation_share=0.1 --out runs/tuning"),
    (results, "airfl results runs/ratios --at energy --target 0.75"),
    (budget, "airfl budget experiments/configs/papers/pfels-cifar10.toml scheme.name=wfl-p"),
    (privacy, "airfl privacy --noise-multiplier 1 --sampling-rate 0.032 --rounds 2000 --delta 1e-3"),
    (audit, "airfl audit experiments/configs/demo.toml --others silent --json"),
    (bench, "airfl bench experiments/configs/demo.toml --profile"),
    (report, "airfl report runs/ratios"),
    (figures, "airfl figures runs/ratios --out runs/ratios-figures --only accuracy-ratio,table"),
    (export, "airfl export runs/first --to mat --out runs/first-matlab"),
    (plot, "airfl plot runs/first --out runs/first-figures"),
    (schemes, "airfl schemes --json"),
    (models, "airfl models"),
    (datasets, "airfl datasets"),
    (configs, "airfl configs"),
    (config, "airfl config experiments/configs/demo.toml power.strict=true"),
)
for command, example in COMMANDS:
    app.command(epilog=f"Example: {example}")(command)
app.add_typer(data_app)


def main() -> None:
    """Entry point: runs a command and turns every ending into an exit code and at most one line."""
    _hear(_interrupt)
    try:
        # Typer turns an interrupt, and --help, into a returned exit code here.
        code = app(standalone_mode=False)
        if isinstance(code, int) and code:
            _end("interrupted", code)
        atexit.register(_hear, signal.SIG_IGN)
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
    except Exception as error:
        usage = getattr(error, "format_message", None)
        if usage:
            _end(usage(), getattr(error, "exit_code", 2))
        if os.environ.get("AIRFL_TRACEBACK"):
            raise
        _end(f"failed: {type(error).__name__}: {error} (AIRFL_TRACEBACK=1 shows where)", 1)


def _hear(handler: Callable[[int, FrameType | None], object] | signal.Handlers) -> None:
    """SIGTERM ends a command as Ctrl-C does; where Ctrl-C is ignored it stays so."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, handler)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    """The first signal is for whoever has to tidy up; another one, while they do, is for nobody."""
    _hear(lambda number, frame: os._exit(130))
    raise KeyboardInterrupt


def _end(message: str, code: int) -> None:
    atexit.register(_hear, signal.SIG_IGN)  # there is nothing left to stop
    say(f"airfl: {message}")
    sys.exit(code)
