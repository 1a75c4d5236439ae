"""SVHN with its 531,131 additional images for training, 604,388 in all (Fed-SMP section 6.1)."""

from __future__ import annotations

from pathlib import Path

from airfl.learning.tasks.datasets.dataset import Dataset
from airfl.learning.tasks.datasets.formats.files import find, find_all
from airfl.learning.tasks.datasets.raw import RawData
from airfl.learning.tasks.datasets.svhn import EXTRA, TEST, TRAIN, load_parts


class SvhnExtra(Dataset):
    """SVHN with its 531,131 additional images for training, 604,388 in all (Fed-SMP section 6.1)."""

    name = "svhn-extra"
    folders = ("svhn-extra", "svhn", "SVHN")
    input_shape = (3, 32, 32)
    classes = 10
    training_samples = 604_388
    text = "the same with its 531,131 additional digits, 604,388 + 26,032 (Fed-SMP)"
    licence = "non-commercial use only; Y. Netzer and others, Stanford and Google, 2011"
    cached = True

    def files(self, folder: Path) -> list[Path]:
        """Return the three files; empty without the additional part. Raises UserError if another is missing."""
        return find_all(folder, (TRAIN, EXTRA, TEST)) if find(folder, EXTRA) else []

    def load(self, folder: Path) -> RawData:
        """Load 604,388 + 26,032 images, the additional ones last; raises UserError if a file is damaged."""
        train, extra, test = self.files(folder)
        return load_parts([train, extra], test)
