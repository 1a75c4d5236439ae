"""Fixture that starts sweep workers without importing everything again."""

from tests.processes import warm_workers as warm_workers
