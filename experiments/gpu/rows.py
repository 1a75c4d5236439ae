"""Rows of a stage's result: a check that passed or failed, or a figure."""

from __future__ import annotations

import math
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from typing import Any

CPU, CUDA, IMITATED = "cpu", "cuda", "imitated"
DEVICES = (CPU, CUDA, IMITATED)
"""Where stages run. On the CPU it is compared with itself; the imitated GPU is that of imitation.py."""


@dataclass(frozen=True)
class Row:
    """A row of a stage's table.

    Attributes:
        what: What was checked or measured.
        value: What was found, as text.
        limit: What it must be, or the goal of a figure, as text; empty for none.
        passed: Whether the check passed; None for a figure.
        detail: More of it, for the JSON file alone, such as a traceback.
    """

    what: str
    value: str
    limit: str = ""
    passed: bool | None = None
    detail: str = ""

    @property
    def plain(self) -> dict[str, Any]:
        """The fields, for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Given:
    """What a stage is given.

    Attributes:
        place: One of DEVICES.
        small: Whether to use small sizes, which show that the stage works.
    """

    place: str = CPU
    small: bool = True

    @property
    def device(self) -> Any:
        """The torch device of the stage."""
        import torch

        return torch.device(CPU if self.place == CPU else CUDA)

    @property
    def on_gpu(self) -> bool:
        """Whether there is a real GPU."""
        return self.place == CUDA

    def pick(self, whole: Any, small: Any) -> Any:
        """Return the second value for small sizes, else the first."""
        return small if self.small else whole

    def imitation(self) -> AbstractContextManager[Any]:
        """Return the context in which the stage runs: the imitated GPU, or nothing."""
        if self.place != IMITATED:
            return nullcontext()
        from experiments.gpu.imitation import imitated_gpu

        return imitated_gpu()


Work = Callable[[Given], Iterator[Row]]


def within(what: str, value: float, limit: float, note: str = "") -> Row:
    """Return a check that a value is at most the limit; nan fails."""
    return Row(what, f"{value:.3g}{note}", f"at most {limit:.3g}", bool(value <= limit))


def equal(what: str, same: bool, value: str = "") -> Row:
    """Return a check that two results are equal bit for bit. value: what differs, if they are not."""
    return Row(what, value or ("equal" if same else "different"), "equal", bool(same))


def figure(what: str, value: object, goal: str = "") -> Row:
    """Return a figure, with its goal beside it if there is one."""
    text = f"{value:.4g}" if isinstance(value, float) and math.isfinite(value) else str(value)
    return Row(what, text, goal)


def failure(what: str, error: BaseException) -> Row:
    """Return the row of an exception: its type and first line, and the traceback as detail."""
    first = (str(error).strip().splitlines() or ["no message"])[0]
    text = "".join(traceback.format_exception(error))
    return Row(what, f"{type(error).__name__}: {first}"[:300], "no exception", False, text)


def guarded(what: str, rows: Callable[[], Iterator[Row]]) -> Iterator[Row]:
    """Yield the rows of a part of a stage; an exception in it is a row, so that the other parts still run."""
    try:
        yield from rows()
    except Exception as error:
        yield failure(what, error)
