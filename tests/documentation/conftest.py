"""Fixtures that start sweep workers without importing everything again, and airfl from its wheel."""

from tests.documentation.wheel import installed as installed
from tests.processes import warm_workers as warm_workers
