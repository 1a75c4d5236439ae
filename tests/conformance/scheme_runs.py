"""Short runs of any scheme for the conformance suites. Shared results must not be modified."""

from functools import cache

import pytest
import torch
import xarray

from airfl.config import Settings
from airfl.core.state import World
from airfl.core.world import world_of
from airfl.learning.task import build_task
from airfl.learning.tasks.datasets import load_dataset
from airfl.learning.tasks.datasets.raw import RawData
from airfl.runtime.streams import Streams
from airfl.schemes.names import SCHEMES
from airfl.simulation import run
from tests.conftest import ROOT, fitting, small_settings

SHORT = ("run.rounds=4", "run.evaluate_every=1", "scheme.ratio=0.5", "scheme.trials=20000", "scheme.levels=16")
each_scheme = pytest.mark.parametrize("name", list(SCHEMES))
REMEMBERING = (
    *("fed-spa", "soteriafl-sgd", "soteriafl-svrg", "soteriafl-saga", "ldp-svrg", "a-dsgd", "ncairfl", "age-topk"),
)
"""One of each kind of memory that devices or the server have from round to round; the other schemes have none, or, as
soteriafl-gd, that of one of these. `test_schemes` holds this list."""


def each_that_remembers(*also: str) -> pytest.MarkDecorator:
    """All schemes, of which `make test` takes one of each kind of memory and these; state has no other difference."""
    short = (*REMEMBERING, *also)
    return pytest.mark.parametrize(
        "name", [pytest.param(name, marks=() if name in short else pytest.mark.full) for name in SCHEMES]
    )


def short(name: str, *overrides: str) -> Settings:
    """Four rounds of a scheme, or as the overrides have it."""
    return small_settings(*fitting(name, SHORT), *overrides)


@cache
def sample() -> RawData:
    return load_dataset("fashion-mnist-sample", [ROOT / "data"])


def world_of_short(name: str, *overrides: str, data: RawData | None = None) -> World:
    settings = short(name, *overrides)
    task = build_task(settings, data or sample(), Streams(settings.run.seed))
    return world_of(settings, task, torch.device("cpu"))


def trace_of(settings: Settings) -> xarray.Dataset:
    with run(settings, data=sample()).trace() as opened:
        return opened.load()


@cache
def finished(name: str) -> xarray.Dataset:
    """The trace of a short run of a scheme, made once in a process."""
    return trace_of(short(name))
