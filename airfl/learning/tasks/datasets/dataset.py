"""The interface of data sets, which find their files in a folder and load them."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import ClassVar, Literal

from airfl.learning.tasks.datasets.raw import RawData
from channels.part import Part

Kind = Literal["pixels", "features", "text"]


class Dataset(Part):
    """A data set that the settings name.

    Attributes that depend on the data set's parameters may be properties of the class.

    Attributes:
        name: Name in the settings, lower case with hyphens.
        folders: Possible folders below a data folder; by default its name. None if it needs no folder: `load` then gets
            the first data folder, which it may ignore.
        input_shape: Shape of one input.
        classes: Number of classes; 0 if the targets are not classes, which needs a user-defined loss.
        training_samples: Number of training samples, for checks before the data is read (for LEAF's data sets nine
            tenths or four fifths of the complete one, of which a copy may have fewer); None to determine it by loading.
        text: Short description for lists.
        licence: Terms of use, as far as the publisher states them.
        writers: The source of the writer of each sample; empty if there is none.
        kind: Kind of the inputs.
        bytes: Whether the inputs are bytes, as in files, rather than float32.
        cached: Whether the decoded arrays are cached on disk, for as long as the files, the class and the code it uses
            are unchanged.
    """

    folders: ClassVar[tuple[str, ...] | None] = ()
    input_shape: ClassVar[tuple[int, ...]] = ()
    classes: ClassVar[int] = 0
    training_samples: ClassVar[int | None] = None
    text: ClassVar[str] = ""
    licence: ClassVar[str] = "not stated"
    writers: ClassVar[str] = ""
    kind: ClassVar[Kind] = "pixels"
    bytes: ClassVar[bool] = True
    cached: ClassVar[bool] = False

    def files(self, folder: Path) -> list[Path]:
        """Return the files that `load` reads, by default all files of the folder.

        Args:
            folder: One of its folders, which need not exist.

        Returns:
            The files; empty if the data set is not in this folder. Raises UserError if it is incomplete.
        """
        return sorted(path for path in folder.iterdir() if path.is_file()) if folder.is_dir() else []

    @abstractmethod
    def load(self, folder: Path) -> RawData:
        """Load the data set.

        Args:
            folder: The first folder in which it has files.

        Returns:
            The arrays. Raises UserError if a file is damaged.
        """
