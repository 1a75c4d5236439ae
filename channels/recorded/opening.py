"""Opening a file of arrays for a block, and how it fails: in one line that does not name the file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from channels.isolated.child import IsolatedError
from channels.recorded.source import RecordingError, Source, open_source, shown


@contextmanager
def readable(what: str) -> Iterator[None]:
    """Turn whatever reading a damaged file raises into a RecordingError.

    Args:
        what: What the file should be, for the message.
    """
    try:
        yield
    except RecordingError:
        raise
    except OSError as error:
        raise RecordingError(f"cannot be read ({error.strerror or error})") from None
    except Exception as error:  # a damaged file can raise anything
        text = str(error) if isinstance(error, IsolatedError) else f"{type(error).__name__}: {error}"
        reason = (text.splitlines() or [""])[0][:120]
        raise RecordingError(f"not a readable {what} ({reason})") from None


def regular_file(source: str | Path) -> Path:
    """Return the path of a regular file. Raises RecordingError for anything else, since reading a pipe could block."""
    path = Path(source)
    try:
        there, regular = path.exists(), path.is_file()
    except (OSError, ValueError) as error:  # the name is too long or invalid, or the folder is not accessible
        raise RecordingError(f"cannot be read ({error})") from None
    if not regular:
        raise RecordingError(
            "is a folder, not a file" if path.is_dir() else "not a regular file" if there else "no such file"
        )
    return path


@contextmanager
def opened(path: Path) -> Iterator[Source]:
    """Open a file of arrays (.npy, .npz, .mat, HDF5) for the block. Raises RecordingError in one line."""
    with readable(".npy, .npz, .mat or HDF5 file"):
        source = open_source(path)
        try:
            yield source
        finally:
            source.close()


def whole(source: Source, name: str) -> NDArray[Any]:
    """Return a whole array, once its declared size is believed."""
    if name not in source.shapes:
        raise RecordingError(f"there is no array {shown(name)!r} of numbers")
    cut = tuple(slice(0, length) for length in source.shapes[name])
    source.check_room(name, cut)
    return source.read(name, cut)
