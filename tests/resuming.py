"""Interruption of runs, and comparison of the traces that they must produce when resumed."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import xarray

import airfl
from airfl.core.record import Record


def interrupted(after: int) -> Callable[[int, int, Record], None]:
    """Return a progress function that stops the run as Ctrl-C in the middle of a later round does."""

    def progress(done: int, rounds: int, record: Record) -> None:
        if done == after:
            raise KeyboardInterrupt

    return progress


def assert_same_trace(one: Path, other: Path) -> None:
    """Check that two traces agree in every value and attribute, except the times at which the runs began."""
    with airfl.open_trace(one) as first:
        assert_trace_of(first, other)


def assert_trace_of(first: xarray.Dataset, other: Path) -> None:
    """Make the same check for a trace that is open or was read before."""
    with airfl.open_trace(other) as second:
        xarray.testing.assert_identical(first.drop_attrs(deep=False), second.drop_attrs(deep=False))
        for name, value in first.attrs.items():
            if name != "created_utc":
                np.testing.assert_equal(second.attrs[name], value, err_msg=name)
