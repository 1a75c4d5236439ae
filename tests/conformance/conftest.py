"""Fixtures shared by the conformance suites."""

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="package", autouse=True)
def _losses_of_few_samples() -> Iterator[None]:
    """What is learned is tested elsewhere: reading the training loss on 9,000 samples would be half of a short run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("airfl.learning.task.TRAINING_SAMPLES", 500)
        yield
