"""Fixtures: sweep workers that start without importing everything again, and a browser."""

from tests.browser import browser as browser
from tests.processes import warm_workers as warm_workers
