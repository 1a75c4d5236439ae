"""Fashion-MNIST (Xiao, Rasul, Vollgraf 2017), from idx files laid out like MNIST's."""

from __future__ import annotations

from pathlib import Path

from airfl.learning.tasks.datasets.dataset import Dataset
from airfl.learning.tasks.datasets.formats.files import find_all
from airfl.learning.tasks.datasets.mnist import NAMES, load_images
from airfl.learning.tasks.datasets.raw import RawData


class FashionMnist(Dataset):
    """Fashion-MNIST (Xiao, Rasul, Vollgraf 2017), from idx files laid out like MNIST's."""

    name = "fashion-mnist"
    folders = ("fashion-mnist", "FashionMNIST/raw")
    input_shape = (1, 28, 28)
    classes = 10
    training_samples = 60_000
    text = "60,000 + 10,000 images of clothes, idx files"
    licence = "MIT, Zalando SE"
    cached = True

    def files(self, folder: Path) -> list[Path]:
        """Return the four files; empty if the data set is not in this folder. Raises UserError if it is incomplete."""
        return find_all(folder, NAMES)

    def load(self, folder: Path) -> RawData:
        """Load 60,000 + 10,000 images; raises UserError if a file is damaged."""
        return load_images(folder)
