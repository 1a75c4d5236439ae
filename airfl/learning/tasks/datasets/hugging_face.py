"""Data sets of Hugging Face's library `datasets`, read from objects, or from files without that library.

It reads folders written by `Dataset.save_to_disk` and `DatasetDict.save_to_disk` (Arrow streams), and Parquet files
like those of the Hub. Nothing is downloaded, and no code of a data set is executed.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from airfl.errors import UserError
from airfl.storage.output_files import is_a_name

if TYPE_CHECKING:
    import pyarrow as pa

LARGEST_SIDE = 4096
"""Largest width or height of an image in pixels. A small file can hold an image of any size."""
STATE, SPLITS = "state.json", "dataset_dict.json"
MALFORMED = (OSError, ValueError, LookupError, TypeError, AttributeError)
"""Errors that a damaged file or a description of another form leads to, beside those of Arrow."""


def read_hugging_face(
    source: Any, *, inputs: str, targets: str, split: str | None = None
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Read inputs and targets of a data set of Hugging Face, as arrays for `airfl.Task`.

    Args:
        source: A `datasets.Dataset`; or a folder that `save_to_disk` wrote, of one data set or of several splits; or a
            Parquet file, or a folder with Parquet files named after their split (`train-00000-of-00001.parquet`), also
            in its folder `data/`.
        inputs: Name of the column of inputs: images, or numbers of one shape.
        targets: Name of the column of targets: class labels, or numbers of one shape.
        split: Name of the split, such as "train"; needed where the source has several.

    Returns inputs, uint8 [n, channels, height, width] for images (1 channel for grey ones, otherwise 3), and targets,
    int64 [n] for classes.

    Raises UserError if the source, a column or a split is missing, if a file is damaged, and for columns that cannot
    become an array: texts, rows of different lengths, images of different sizes, missing values.
    """
    if isinstance(source, str | Path):
        table = _read(Path(source).expanduser(), split)
        name = str(source)
    else:
        table, name = _of_object(source, split), type(source).__name__
    features = _features(table)
    found = [
        _column(table, features, column, f"{what}={column!r} of {name}") for column, what in _asked(inputs, targets)
    ]
    if not len(found[0]):
        raise UserError(f"{name}: the data set has no samples")
    return found[0], found[1]


def _asked(inputs: str, targets: str) -> tuple[tuple[str, str], ...]:
    return ((inputs, "inputs"), (targets, "targets"))


def _of_object(source: Any, split: str | None) -> pa.Table:
    """Return the table of a `datasets.Dataset`, or of a split of a `datasets.DatasetDict`."""
    if isinstance(source, dict):
        source = source[_split_of(sorted(source), split, type(source).__name__)]
    try:
        table: pa.Table = source.with_format("arrow")[:]
    except (AttributeError, TypeError):  # TypeError: an IterableDataset, which has no rows to index
        raise UserError(
            f"source: expected a datasets.Dataset, a folder or a Parquet file, got {type(source).__name__}"
        ) from None
    return table


def _read(path: Path, split: str | None) -> pa.Table:
    """Return the table of a folder or of a Parquet file; raises UserError for others and for damaged files."""
    import pyarrow as pa

    try:
        if path.is_file():
            return _parquet([path])
        if (path / SPLITS).is_file():
            chosen = _split_of(_json(path / SPLITS)["splits"], split, str(path))
            if not is_a_name(chosen):
                raise ValueError(f"{SPLITS}: {chosen!r} is no name of a folder")
            return _saved(path / chosen)
        if (path / STATE).is_file():
            return _saved(path)
        files = sorted(path.glob("*.parquet")) or sorted((path / "data").glob("*.parquet"))
        if files:
            chosen = _split_of(sorted({file.name.split("-")[0] for file in files}), split, str(path))
            return _parquet([file for file in files if file.name.split("-")[0] == chosen])
    except (pa.ArrowException, *MALFORMED) as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise UserError(f"{path}: cannot be read as a data set of Hugging Face ({lines[0][:200]})") from error
    raise UserError(
        f"{path}: no data set of Hugging Face; expected a Parquet file, or a folder with {STATE} or {SPLITS} "
        "(Dataset.save_to_disk) or with Parquet files"
    )


def _split_of(names: Any, split: str | None, where: str) -> str:
    """Return the split that is asked for, or the only one."""
    known = [str(name) for name in names]
    if split is None and len(known) == 1:
        return known[0]
    if split not in known:
        asked = "is needed" if split is None else f"must be one of its splits, got {split!r}"
        raise UserError(f"split {asked}: {where} has {', '.join(known) or 'none'}")
    return split


def _json(path: Path) -> dict[str, Any]:
    found = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(found, dict):
        raise ValueError(f"{path.name} holds no object")
    return found


def _saved(folder: Path) -> pa.Table:
    """Return the table of a folder of `Dataset.save_to_disk`, whose rows are in the order of its files."""
    import pyarrow as pa

    state = _json(folder / STATE)
    if state.get("_indices_data_files") or state.get("_indices_files"):
        raise UserError(f"{folder}: rows are selected by a second table; call flatten_indices() before save_to_disk")
    tables = []
    for entry in state.get("_data_files", []):
        file = folder / Path(str(entry["filename"])).name  # never outside of the folder
        with pa.memory_map(str(file)) as mapped:
            tables.append(pa.ipc.open_stream(mapped).read_all())
    if not tables:
        raise ValueError(f"{STATE} names no files")
    table = pa.concat_tables(tables)
    table.validate(full=True)  # offsets of a damaged file may point anywhere
    return table


def _parquet(files: list[Path]) -> pa.Table:
    import pyarrow as pa
    import pyarrow.parquet as pq

    return pa.concat_tables([pq.ParquetFile(file).read() for file in files])


def _features(table: pa.Table) -> dict[str, Any]:
    """Return the library's description of the columns from the table's metadata; empty if there is none."""
    try:
        found = json.loads((table.schema.metadata or {}).get(b"huggingface", b"{}"))
        features = found.get("info", {}).get("features", {})
    except (ValueError, AttributeError):
        return {}
    return features if isinstance(features, dict) else {}


def _column(table: pa.Table, features: dict[str, Any], name: str, what: str) -> NDArray[Any]:
    """Return a column as an array; `what` names it in errors."""
    import pyarrow as pa

    if name not in table.column_names:
        raise UserError(f"{what}: no such column; there are {', '.join(table.column_names)}")
    column = table.column(name)
    column = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if column.null_count:
        raise UserError(f"{what}: {column.null_count:,} of {len(column):,} values are missing")
    kind = features.get(name, {})
    if pa.types.is_struct(column.type) and {"bytes", "path"} <= {field.name for field in column.type}:
        return _images(column.field("bytes"), what)
    found = _numbers(column, what)
    shape = kind.get("shape") if isinstance(kind, dict) else None
    if _is_shape(shape) and found[:1].size == np.prod(shape, dtype=np.int64):
        found = found.reshape(len(found), *shape)
    return found


def _is_shape(shape: Any) -> TypeGuard[list[int]]:
    return isinstance(shape, list) and bool(shape) and all(type(side) is int and side > 0 for side in shape)


def _numbers(column: pa.Array, what: str) -> NDArray[Any]:
    """Return numbers, or nested lists of numbers of one shape, as an array of one row a sample."""
    import pyarrow as pa

    shape: list[int] = [len(column)]
    while (
        pa.types.is_list(column.type) or pa.types.is_large_list(column.type) or pa.types.is_fixed_size_list(column.type)
    ):
        lengths = column.value_lengths().to_numpy(zero_copy_only=False)
        if len(lengths) and (lengths != lengths[0]).any():
            raise UserError(f"{what}: rows have different lengths, {lengths.min():g} to {lengths.max():g}; pad them")
        shape.append(int(lengths[0]) if len(lengths) else 0)
        column = column.flatten()
    if column.null_count:
        raise UserError(f"{what}: {column.null_count:,} numbers are missing")
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type) or pa.types.is_boolean(column.type)):
        raise UserError(f"{what}: is of type {column.type}, not numbers; encode it as numbers of one shape")
    flat = column.to_numpy(zero_copy_only=False)
    flat = flat.astype(np.int64) if len(shape) == 1 and flat.dtype.kind in "iub" else flat
    return np.array(flat).reshape(shape)


def _images(encoded: pa.Array, what: str) -> NDArray[np.uint8]:
    """Decode images (PNG, JPEG ...) of one size, uint8 [n, channels, height, width]."""
    import pyarrow as pa
    from PIL import Image

    if encoded.null_count:
        raise UserError(
            f"{what}: {encoded.null_count:,} of {len(encoded):,} images are paths of other files; embed them "
            "(datasets: map with decode=False and bytes, or push and download as Parquet)"
        )
    if not (pa.types.is_binary(encoded.type) or pa.types.is_large_binary(encoded.type)):
        raise UserError(f"{what}: images are of type {encoded.type}, expected the bytes of PNG or JPEG files")
    images: NDArray[np.uint8] | None = None
    for row, data in enumerate(encoded):
        try:
            with Image.open(io.BytesIO(data.as_py())) as image:
                if max(image.size) > LARGEST_SIDE:
                    raise UserError(f"{what}: image {row} has {image.size} pixels; at most {LARGEST_SIDE} a side")
                grey = image.mode in ("1", "L")
                pixels = np.asarray(image.convert("L" if grey else "RGB"))
        except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
            raise UserError(f"{what}: image {row} cannot be decoded ({str(error)[:100]})") from error
        pixels = pixels[None] if grey else pixels.transpose(2, 0, 1)
        if images is None:
            images = np.empty((len(encoded), *pixels.shape), dtype=np.uint8)
        if pixels.shape != images.shape[1:]:
            raise UserError(
                f"{what}: image {row} has the shape {pixels.shape}, and the first one {images.shape[1:]}; resize them"
            )
        images[row] = pixels
    return np.empty((0, 1, 1, 1), dtype=np.uint8) if images is None else images
