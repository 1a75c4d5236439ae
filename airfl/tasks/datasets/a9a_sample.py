"""The sample of a9a that is kept with the code; its files must match their SHA256SUMS."""

from __future__ import annotations

from pathlib import Path

from airfl.tasks.datasets.a9a import NAMES, load_rows
from airfl.tasks.datasets.dataset import Dataset
from airfl.tasks.datasets.formats.sums import SUMS, check_sums
from airfl.tasks.datasets.raw import RawData

TRAIN, TEST = 2_000, 1_000


class A9aSample(Dataset):
    """The sample of a9a that is kept with the code; its files must match their SHA256SUMS."""

    name = "a9a-sample"
    folders = ("a9a-sample",)
    input_shape = (123,)
    classes = 2
    training_samples = 2_000
    text = "2,000 + 1,000 rows of a9a, kept with the code"
    licence = "derived from UCI Adult (CC BY 4.0), B. Becker and R. Kohavi"
    kind = "features"

    def files(self, folder: Path) -> list[Path]:
        """The list of its files, if the folder is there at all."""
        return [folder / SUMS] if folder.is_dir() else []

    def load(self, folder: Path) -> RawData:
        """The first 2,000 + 1,000 rows of a9a; UserError if a file is missing or not what it was."""
        check_sums(folder, NAMES)
        return load_rows(folder, TRAIN, TEST)
