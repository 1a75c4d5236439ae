"""The workers of a sweep import nothing anew here."""

from tests.processes import warm_workers as warm_workers
