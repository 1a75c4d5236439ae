"""The sample of a9a that comes with airfl; its files must match their SHA256SUMS."""

from __future__ import annotations

from pathlib import Path

from airfl.learning.tasks.datasets.a9a import NAMES, load_rows
from airfl.learning.tasks.datasets.dataset import Dataset
from airfl.learning.tasks.datasets.formats.sums import SUMS, check_sums
from airfl.learning.tasks.datasets.raw import RawData

TRAIN, TEST = 2_000, 1_000


class A9aSample(Dataset):
    """The sample of a9a that comes with airfl; its files must match their SHA256SUMS."""

    name = "a9a-sample"
    folders = ("a9a-sample",)
    input_shape = (123,)
    classes = 2
    training_samples = 2_000
    text = "2,000 + 1,000 rows of a9a, included in airfl"
    licence = "derived from UCI Adult (CC BY 4.0), B. Becker and R. Kohavi"
    kind = "features"

    def files(self, folder: Path) -> list[Path]:
        """Return SHA256SUMS, the list of the files, if the folder exists; else nothing."""
        return [folder / SUMS] if folder.is_dir() else []

    def load(self, folder: Path) -> RawData:
        """Load the first 2,000 + 1,000 rows of a9a; raises UserError if a file is missing or has changed."""
        check_sums(folder, NAMES)
        return load_rows(folder, TRAIN, TEST)
