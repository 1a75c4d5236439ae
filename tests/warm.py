"""Preloading by import: modules that `airfl` imports late, the decoded samples, and the slow first calls."""

import importlib
import tempfile
from pathlib import Path

import airfl.study.sweeps.attempt  # noqa: F401
from airfl.config import load_settings
from airfl.simulation import run
from tests.conftest import DEMO, SMALL
from tests.processes import WORDS

OF_OTHERS = ("matplotlib.pyplot", "pandas", "pyarrow.parquet", "dp_accounting", "rich.table", "platformdirs")
for name in (*OF_OTHERS, "airfl.report.terminal", "airfl.analysis.calculator", "airfl.analysis.budget"):
    importlib.import_module(name)
for words in (WORDS[2:], SMALL):
    with tempfile.TemporaryDirectory() as folder:
        run(load_settings(DEMO, [*words, "run.rounds=2"]), Path(folder) / "out").summary()
