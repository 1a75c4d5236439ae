"""What a data set is: a part that finds its files in a folder and reads them."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import ClassVar, Literal

from airfl.tasks.datasets.raw import RawData
from channels.part import Part

Kind = Literal["pixels", "features", "text"]


class Dataset(Part):
    """A data set that settings name.

    What depends on its parameters may be a property of the class.

    Attributes:
        name: What settings call it, lower case with hyphens.
        folders: Where it may lie below a data folder; its own name by default. None where it lies in no folder: `load`
            is then given the first data folder, and need not look at it.
        input_shape: Of one input.
        classes: How many there are; 0 where targets are no classes, which needs a loss of one's own.
        training_samples: How many there are for training, for checks before data is read (of LEAF's data sets the nine
            tenths or four fifths of the complete one: a copy may have fewer); None where it is to be found out.
        text: What it is, for lists.
        licence: The terms of use, as far as whoever publishes it states them.
        writers: What names the writer of each sample, empty where nothing does.
        kind: What inputs are.
        cached: Whether decoded arrays are kept in the cache folder, as long as its files, its class and what this uses
            are the same.
    """

    folders: ClassVar[tuple[str, ...] | None] = ()
    input_shape: ClassVar[tuple[int, ...]] = ()
    classes: ClassVar[int] = 0
    training_samples: ClassVar[int | None] = None
    text: ClassVar[str] = ""
    licence: ClassVar[str] = "not stated"
    writers: ClassVar[str] = ""
    kind: ClassVar[Kind] = "pixels"
    cached: ClassVar[bool] = False

    def files(self, folder: Path) -> list[Path]:
        """The files that it would read there, all of them by default.

        Args:
            folder: One of its folders, which need not exist.

        Returns:
            Empty if the data set is not in this folder. Raises UserError if it is in part.
        """
        return sorted(path for path in folder.iterdir() if path.is_file()) if folder.is_dir() else []

    @abstractmethod
    def load(self, folder: Path) -> RawData:
        """The data set.

        Args:
            folder: The first one in which it has files.

        Returns:
            Its arrays. Raises UserError if a file is wrong.
        """
