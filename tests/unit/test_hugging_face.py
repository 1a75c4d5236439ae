"""Data sets of Hugging Face, against what its own library reads; damaged files; partitioners of Flower."""

from __future__ import annotations

import json
import shutil
import struct
import sys
import types
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import airfl
from airfl.datasets import read_hugging_face
from airfl.errors import UserError
from airfl.partitions import from_flower
from tests.conftest import ROOT
from tests.documentation.blocks import blocks

FILES = ROOT / "tests" / "data" / "hugging-face"
WANTED = np.load(FILES / "wanted.npz")
COLUMNS = ("image", "table", "features")


class Rows:
    """The methods of `datasets.Dataset` that are used, on a table of Arrow."""

    def __init__(self, table: pa.Table, kind: str = "") -> None:
        self.table, self.kind = table, kind

    @property
    def column_names(self) -> list[str]:
        return list(self.table.column_names)

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def add_column(self, name: str, values: Any) -> Rows:
        return Rows(self.table.append_column(name, pa.array(values)))

    def select(self, rows: Any) -> Rows:
        return Rows(self.table.take(pa.array(rows)))

    def with_format(self, kind: str) -> Rows:
        return Rows(self.table, kind)

    def __getitem__(self, asked: Any) -> Any:
        if self.kind == "arrow":
            return self.table[asked] if not isinstance(asked, slice) else self.table
        return self.table.column(asked).to_numpy()


class EverySecond:
    """A partitioner with the interface of Flower's: partition i has every n-th sample from the i-th on."""

    def __init__(self, num_partitions: int, **_: Any) -> None:
        self.num_partitions = num_partitions
        self._dataset: Rows | None = None

    @property
    def dataset(self) -> Rows | None:
        return self._dataset

    @dataset.setter
    def dataset(self, value: Rows) -> None:
        self._dataset = value

    def load_partition(self, partition_id: int) -> Rows:
        assert self._dataset is not None
        return self._dataset.select(np.arange(partition_id, len(self._dataset), self.num_partitions))


@pytest.mark.parametrize("source", ["splits", "hub"])
@pytest.mark.parametrize("column", COLUMNS)
def test_files_are_read_as_their_own_library_reads_them(source: str, column: str) -> None:
    inputs, targets = read_hugging_face(FILES / source, split="train", inputs=column, targets="label")
    np.testing.assert_array_equal(inputs, WANTED[column])
    np.testing.assert_array_equal(targets, WANTED["label"])
    assert inputs.dtype == WANTED[column].dtype
    assert targets.dtype == np.int64
    tested = read_hugging_face(FILES / source, split="test", inputs=column, targets="label")[1]
    np.testing.assert_array_equal(tested, WANTED["test_label"])


def test_a_single_data_set_and_grey_images() -> None:
    inputs, _ = read_hugging_face(str(FILES / "one"), inputs="image", targets="label")
    np.testing.assert_array_equal(inputs[:, 0], WANTED["grey"])


def test_a_parquet_file_and_an_object() -> None:
    file = FILES / "hub" / "data" / "train-00000-of-00001.parquet"
    table = pq.read_table(file)
    for source in (file, Rows(table), {"train": Rows(table)}):
        inputs, targets = read_hugging_face(source, inputs="image", targets="label")
        np.testing.assert_array_equal(inputs, WANTED["image"])
        np.testing.assert_array_equal(targets, WANTED["label"])


@pytest.mark.parametrize(
    ("source", "given", "said"),
    [
        ("splits", {}, "split is needed: .* has train, test"),
        ("splits", {"split": "dev"}, "split must be one of its splits, got 'dev'"),
        ("one", {"inputs": "pixels"}, "inputs='pixels' of .*: no such column; there are image, label"),
        ("one", {"inputs": "text"}, "inputs='text' of .*: is of type string, not numbers"),
        ("one", {"inputs": "ragged"}, "rows have different lengths, 1 to 3; pad them"),
        ("none", {}, "no data set of Hugging Face; expected a Parquet file"),
        ("wanted.npz", {}, "cannot be read as a data set of Hugging Face"),
    ],
)
def test_what_is_not_there_is_said_in_one_line(source: str, given: dict[str, str], said: str) -> None:
    with pytest.raises(UserError, match=said) as error:
        read_hugging_face(FILES / source, **{"inputs": "image", "targets": "label", **given})
    assert "\n" not in str(error.value)


def test_other_objects_and_missing_values_are_refused(tmp_path: Path) -> None:
    stream = types.SimpleNamespace(with_format=lambda kind: 3)  # an IterableDataset cannot be indexed either
    for source, kind in ((3, "int"), (stream, "SimpleNamespace")):
        with pytest.raises(UserError, match=rf"expected a datasets\.Dataset, a folder or a Parquet file, got {kind}"):
            read_hugging_face(source, inputs="x", targets="y")
    table = pa.table(
        {
            "x": [[1.0, 2.0], None],
            "y": [0, 1],
            "z": [[1.0], [None]],
            "none": pa.array([], pa.int64()).take(pa.array([None, None], pa.int64())),
        }
    )
    for column, said in (("x", "1 of 2 values are missing"), ("z", "1 numbers are missing")):
        with pytest.raises(UserError, match=said):
            read_hugging_face(Rows(table), inputs=column, targets="y")
    empty = pa.table({"x": pa.array([], pa.float32()), "y": pa.array([], pa.int64())})
    with pytest.raises(UserError, match="has no samples"):
        read_hugging_face(Rows(empty), inputs="x", targets="y")


def test_images_of_other_sizes_paths_and_bombs_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded = pq.read_table(FILES / "hub" / "data" / "train-00000-of-00001.parquet").column("image").to_pylist()
    other = pq.ParquetFile(FILES / "hub" / "data" / "test-00000-of-00001.parquet").read().column("image").to_pylist()
    grey = Rows(pa.ipc.open_stream(FILES / "one" / "data-00000-of-00001.arrow").read_all()).table.column("image")
    images = {
        "image 1 has the shape": [other[0], grey[0].as_py()],
        "1 of 1 images are paths of other files": [{"bytes": None, "path": "somewhere.png"}],
        "image 0 cannot be decoded": [{"bytes": b"no image", "path": None}],
    }
    for said, values in images.items():
        with pytest.raises(UserError, match=said):
            read_hugging_face(Rows(pa.table({"image": values, "y": [0] * len(values)})), inputs="image", targets="y")
    header = struct.pack(">IIBBBBB", 20_000, 20_000, 8, 0, 0, 0, 0)  # Pillow itself refuses to open one so large
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(bytes(100))), (b"IEND", b""))
    bomb = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )
    for data, said in ((bomb, "image 0 cannot be decoded .*bomb"), ("text", "images are of type string, expected")):
        table = Rows(pa.table({"image": [{"bytes": data, "path": None}], "y": [0]}))
        with pytest.raises(UserError, match=said):
            read_hugging_face(table, inputs="image", targets="y")
    monkeypatch.setattr("airfl.learning.tasks.datasets.hugging_face.LARGEST_SIDE", 4)
    with pytest.raises(UserError, match="at most 4 a side"):
        read_hugging_face(Rows(pa.table({"image": encoded[:1], "y": [0]})), inputs="image", targets="y")


def test_damaged_files_are_refused_and_others_never_opened(tmp_path: Path) -> None:
    """Truncated at any place, with bytes changed, or naming files elsewhere."""
    generator = np.random.default_rng(0)
    for number in range(60):
        folder = tmp_path / str(number)
        shutil.copytree(FILES / "one", folder)
        file = folder / ("data-00000-of-00001.arrow" if number % 4 else "state.json")
        data = bytearray(file.read_bytes())
        if number % 2:
            data = data[: generator.integers(len(data))]
        else:
            for place in generator.integers(len(data), size=5):
                data[place] = generator.integers(256)
        file.write_bytes(data)
        with suppress(UserError):
            read_hugging_face(folder, inputs="image", targets="label")
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(FILES / "one", elsewhere)
    state = {"_data_files": [{"filename": "../0/data-00000-of-00001.arrow"}]}
    (elsewhere / "data-00000-of-00001.arrow").unlink()
    (elsewhere / "state.json").write_text(json.dumps(state))
    with pytest.raises(UserError, match="cannot be read"):
        read_hugging_face(elsewhere, inputs="image", targets="label")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *(("state.json", f'{{"_data_files": {files}}}') for files in ("[{}]", "[1]", "3", "null")),
        *(("dataset_dict.json", f'{{"splits": {splits}}}') for splits in ("3", "null", '["../one"]', '[".."]')),
        ("dataset_dict.json", "{}"),
    ],
)
def test_descriptions_of_another_form_are_refused_in_one_line(tmp_path: Path, name: str, text: str) -> None:
    """Among them a split in another folder, which is there."""
    shutil.copytree(FILES / "one", tmp_path / "one")
    shutil.copytree(FILES / "one", tmp_path / "set")
    (tmp_path / "set" / name).write_text(text)
    with pytest.raises(UserError, match="set: cannot be read as a data set of Hugging Face") as error:
        read_hugging_face(tmp_path / "set", inputs="image", targets="label")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("shape", [["a"], [-1, -2], [1.5], "ab"])
def test_a_shape_that_is_none_is_ignored(shape: object) -> None:
    features = json.dumps({"info": {"features": {"x": {"shape": shape}}}})
    table = pa.table({"x": [[1, 2], [3, 4]], "y": [0, 1]}).replace_schema_metadata({b"huggingface": features})
    assert read_hugging_face(Rows(table), inputs="x", targets="y")[0].tolist() == [[1, 2], [3, 4]]


def test_a_partitioner_of_flower_divides_the_samples() -> None:
    rows = Rows(pa.table({"label": list(range(10))}))
    parts = from_flower(EverySecond(3), rows)
    assert [part.tolist() for part in parts] == [[0, 3, 6, 9], [1, 4, 7], [2, 5, 8]]
    used = EverySecond(3)
    used.dataset = rows
    for partitioner, dataset, said in (
        (used, rows, "has been set already"),
        (3, rows, r"expected one of flwr_datasets\.partitioner, got int"),
        (EverySecond(3), [1], r"expected a datasets\.Dataset, got list"),
    ):
        with pytest.raises(UserError, match=said):
            from_flower(partitioner, dataset)


def test_the_partitioners_themselves() -> None:
    """Where they are installed."""
    library = pytest.importorskip("datasets")
    partitioners = pytest.importorskip("flwr_datasets.partitioner")
    rows = library.Dataset.from_dict({"label": (np.arange(300) % 10).tolist()})
    partitioner = partitioners.DirichletPartitioner(num_partitions=4, partition_by="label", alpha=0.5)
    parts = from_flower(partitioner, rows)
    assert sorted(np.concatenate(parts).tolist()) == list(range(300))
    for number, part in enumerate(parts):
        assert list(partitioner.load_partition(number)["label"]) == (part % 10).tolist()


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The blocks of docs/data.md on the files of this test, with stand-ins for the two libraries."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(FILES / "splits", "clothes")
    train = {"train": Rows(pq.read_table(FILES / "hub" / "data" / "train-00000-of-00001.parquet"))}
    libraries: dict[str, Any] = {
        "datasets": types.SimpleNamespace(load_from_disk=lambda folder: train),
        "flwr_datasets": types.ModuleType("flwr_datasets"),
        "flwr_datasets.partitioner": types.SimpleNamespace(DirichletPartitioner=EverySecond),
    }
    for name, library in libraries.items():
        monkeypatch.setitem(sys.modules, name, library)
    names: dict[str, Any] = {}
    mine = [
        block for block in blocks(ROOT / "docs" / "data.md") if "tests/unit/test_hugging_face.py" in str(block.what)
    ]
    assert len(mine) == 2
    few = {
        '"run.devices": 100': '"run.devices": 4, "run.selected": 2, "run.rounds": 2',
        "partitions=100": "partitions=4",
    }
    for block in mine:
        text = block.text
        for whole, short in few.items():
            text = text.replace(whole, short)
        exec(compile(text, block.place, "exec"), names)
    assert isinstance(names["run"], airfl.Run)
    assert [len(part) for part in names["task"].partition] == [3, 3, 3, 3]
