"""Exports to TensorFlow: rounds.tfrecord, with one tf.train.Example per round, and features.json for reading it.

dataset = tf.data.TFRecordDataset("rounds.tfrecord").map(airfl.exports.tfrecord.parser("features.json"))
"""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from airfl.config import to_json
from airfl.errors import UserError
from airfl.exports.format import Format, about, signals_left_out, with_dimensions
from airfl.storage.input_files import LIST_BYTES, read_regular

if TYPE_CHECKING:
    import xarray

FILES = ("rounds.tfrecord", "features.json")
ROUNDS_AT_ONCE = 256


def check(trace: xarray.Dataset) -> None:
    """Raise UserError if TensorFlow is not installed."""
    if importlib.util.find_spec("tensorflow") is None:
        raise UserError('--to tfrecord: the package tensorflow is not installed; pip install "airfl[tensorflow]"')


def left_out(trace: xarray.Dataset) -> str | None:
    """Say that signals are left out."""
    return signals_left_out(trace, "TFRecord")


def write(trace: xarray.Dataset, folder: Path) -> None:
    """Write the feature `round` (counted from 0) and all per-round and per-slot variables.

    Unused slots are -1 and nan, as in the trace. An Example can hold 64-bit integers and 32-bit floats; 64-bit floats
    are stored exactly, as bytes.
    """
    tensorflow = _tensorflow()
    names = [*with_dimensions(trace, "round"), *with_dimensions(trace, "round", "slot")]
    features = {"round": _feature("i8", ())} | {
        name: _feature(trace[name].dtype.str[1:], trace[name].shape[1:]) for name in names
    }
    with tensorflow.io.TFRecordWriter(str(folder / FILES[0])) as records:
        for start in range(0, trace.sizes["round"], ROUNDS_AT_ONCE):
            part = trace[names].isel(round=slice(start, start + ROUNDS_AT_ONCE)).load()
            columns = {"round": np.arange(start, start + part.sizes["round"])} | {n: part[n].values for n in names}
            for row in range(part.sizes["round"]):
                example = {name: _value(tensorflow, values[row]) for name, values in columns.items()}
                message = tensorflow.train.Example(features=tensorflow.train.Features(feature=example))
                records.write(message.SerializeToString())
    (folder / FILES[1]).write_text(to_json({"features": features, **about(trace)}, indent=1), encoding="utf-8")


def parser(features: str | Path) -> Callable[[Any], dict[str, Any]]:
    """Return a function for tf.data.Dataset.map that parses a serialized Example.

    Args:
        features: The file features.json of the export.

    Returns:
        The function. It returns tensors by name, with the shapes and types of the trace.

    Raises:
        UserError: If the file cannot be read.
    """
    try:
        described = dict(json.loads(read_regular(features, LIST_BYTES))["features"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise UserError(f"{features}: not the features.json of a TFRecord export; export again") from None
    tensorflow = _tensorflow()
    spec = {name: _spec(tensorflow, one) for name, one in described.items()}

    def parse(record: Any) -> dict[str, Any]:
        values = tensorflow.io.parse_single_example(record, spec)
        return {name: _tensor(tensorflow, values[name], one) for name, one in described.items()}

    return parse


def _feature(dtype: str, shape: tuple[int, ...]) -> dict[str, Any]:
    """Describe how a variable is stored.

    Integers are stored as int64, 32-bit floats as float, complex64 as pairs of these, and 64-bit floats as
    little-endian bytes.
    """
    stored = "int64" if dtype.startswith("i") else "float" if dtype in ("f4", "c8") else "bytes"
    return {"dtype": dtype, "shape": list(shape), "stored": stored}


def _value(tensorflow: Any, values: NDArray[Any]) -> Any:
    train, values = tensorflow.train, np.ascontiguousarray(values)
    if values.dtype.kind == "i":
        return train.Feature(int64_list=train.Int64List(value=values.ravel().tolist()))
    if values.dtype.itemsize == 4 or values.dtype == np.complex64:
        return train.Feature(float_list=train.FloatList(value=values.ravel().view(np.float32).tolist()))
    return train.Feature(bytes_list=train.BytesList(value=[values.astype(values.dtype.newbyteorder("<")).tobytes()]))


def _spec(tensorflow: Any, feature: dict[str, Any]) -> Any:
    if feature["stored"] == "bytes":
        return tensorflow.io.FixedLenFeature([], tensorflow.string)
    shape = [*feature["shape"], 2] if feature["dtype"] == "c8" else feature["shape"]
    return tensorflow.io.FixedLenFeature(
        shape, tensorflow.int64 if feature["stored"] == "int64" else tensorflow.float32
    )


def _tensor(tensorflow: Any, value: Any, feature: dict[str, Any]) -> Any:
    dtype = tensorflow.as_dtype(np.dtype(feature["dtype"]))
    if feature["stored"] == "bytes":
        return tensorflow.reshape(tensorflow.io.decode_raw(value, dtype), feature["shape"])
    return tensorflow.complex(value[..., 0], value[..., 1]) if dtype.is_complex else tensorflow.cast(value, dtype)


def _tensorflow() -> Any:
    """Import TensorFlow, without its messages about the machine unless the user has set their level."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    try:
        import tensorflow
    except ImportError:
        raise UserError(
            'the package tensorflow is not installed or cannot be imported; pip install "airfl[tensorflow]"'
        ) from None
    return tensorflow


FORMAT = Format(files=FILES, write=write, check=check, left_out=left_out)
