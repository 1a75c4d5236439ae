"""The sample of Fashion-MNIST that comes with airfl; its files must match their SHA256SUMS."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from airfl.learning.tasks.datasets.dataset import Dataset
from airfl.learning.tasks.datasets.formats.sums import SUMS, check_sums
from airfl.learning.tasks.datasets.mnist import NAMES, load_images
from airfl.learning.tasks.datasets.raw import RawData

TRAIN, TEST = 10_000, 2_000
# Mean and standard deviation of the complete training set, as commonly used.
MEAN, STD = (0.2860,), (0.3530,)


class FashionMnistSample(Dataset):
    """The sample of Fashion-MNIST that comes with airfl; its files must match their SHA256SUMS."""

    name = "fashion-mnist-sample"
    folders = ("fashion-mnist-sample",)
    input_shape = (1, 28, 28)
    classes = 10
    training_samples = 10_000
    text = "10,000 + 2,000 images of Fashion-MNIST, included in airfl"
    licence = "MIT, Zalando SE"

    def files(self, folder: Path) -> list[Path]:
        """Return SHA256SUMS, the list of the files, if the folder exists; else nothing."""
        return [folder / SUMS] if folder.is_dir() else []

    def load(self, folder: Path) -> RawData:
        """Load the sample; raises UserError if a file is missing or has changed."""
        check_sums(folder, NAMES)
        return replace(load_images(folder, TRAIN, TEST), mean=MEAN, std=STD)
