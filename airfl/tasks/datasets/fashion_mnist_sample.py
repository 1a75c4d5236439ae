"""The sample of Fashion-MNIST that is kept with the code; its files must match their SHA256SUMS."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from airfl.tasks.datasets.dataset import Dataset
from airfl.tasks.datasets.formats.sums import SUMS, check_sums
from airfl.tasks.datasets.mnist import NAMES, load_images
from airfl.tasks.datasets.raw import RawData

TRAIN, TEST = 10_000, 2_000
# Of the complete training set, the usual figures.
MEAN, STD = (0.2860,), (0.3530,)


class FashionMnistSample(Dataset):
    """The sample of Fashion-MNIST that is kept with the code; its files must match their SHA256SUMS."""

    name = "fashion-mnist-sample"
    folders = ("fashion-mnist-sample",)
    input_shape = (1, 28, 28)
    classes = 10
    training_samples = 10_000
    text = "10,000 + 2,000 images of Fashion-MNIST, kept with the code"
    licence = "MIT, Zalando SE"

    def files(self, folder: Path) -> list[Path]:
        """The list of its files, if the folder is there at all."""
        return [folder / SUMS] if folder.is_dir() else []

    def load(self, folder: Path) -> RawData:
        """The sample; UserError if a file is missing or not what it was."""
        check_sums(folder, NAMES)
        return replace(load_images(folder, TRAIN, TEST), mean=MEAN, std=STD)
