"""docs/data.md: its table of a million devices is the one that `airfl compare` wrote for the settings."""

from airfl.config import load_rows
from airfl.learning.tasks.datasets import GaussianClasses
from tests.conftest import ROOT

PAGE = ROOT / "docs" / "data.md"
CONFIG = ROOT / "experiments" / "configs" / "million-devices.toml"


def test_the_table_is_the_one_that_was_written() -> None:
    written = (ROOT / "experiments" / "tables" / "million-devices.md").read_text().splitlines()
    rows = [line for line in written if line.startswith("|")]
    assert "\n".join(rows) in PAGE.read_text()
    assert [row.label for row in load_rows(CONFIG)] == [line.split("|")[1].strip() for line in rows[2:]]


def test_the_accuracies_are_below_the_largest_to_expect() -> None:
    """A test sample of 10,000: no more than 5 deviations above it, and FedAvg comes within a point of it."""
    data = load_rows(CONFIG)[0].settings.task.dataset_part
    assert data == GaussianClasses(separation=5.0, shift_std=0.5, concentration=0.3, device_samples=90)
    assert isinstance(data, GaussianClasses)
    best = 100 * (1 - data.least_error)
    written = (ROOT / "experiments" / "tables" / "million-devices.md").read_text().splitlines()
    accuracies = [float(line.split("|")[2]) for line in written[2:4]]
    deviation = (best * (100 - best) / 10_000) ** 0.5
    assert best - 1 < accuracies[0] < best + 5 * deviation
    assert accuracies[1] < accuracies[0]


def test_the_page_counts_the_memory_of_all_samples() -> None:
    settings = load_rows(CONFIG)[0].settings
    task = settings.task
    row_bytes = 4 * task.gaussian_features + 8
    total = settings.run.devices * task.device_samples * row_bytes
    assert f"would need {round(total / 1e9)} GB" in " ".join(PAGE.read_text().split())
