"""Damaged data files, plain and packed, are read as valid data or refused in one line that names the file."""

import itertools
import os
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.reliability.data_outcomes import NO_FILES, lay, outcome, read, valid
from tests.reliability.data_samples import FORMS, form, smaller
from tests.reliability.mutations import mutations
from tests.reliability.refusals import case
from tests.reliability.scale import Measured, cases
from tests.unit.datasets.support import PACKED
from tests.unit.datasets.test_mnist import QMNIST

EACH, EACH_PACKED = cases(20, 900), cases(10, 900)
"""What is damaged before it is packed is met plain, too."""
# Most bytes at once: of JSON a number of four characters takes 32, a list or table of three to seven up to 230.
MULTIPLE, BESIDES = 40, 4 << 20


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    smaller(monkeypatch)
    monkeypatch.setenv("AIRFL_CACHE", str(tmp_path / "cache"))


def damaged(rng: np.random.Generator, data: bytes, suffix: str, first: int) -> Iterator[tuple[str, bytes]]:
    """Files of that content, packed: damaged before they are packed and after, in turn."""
    inside, outside = mutations(rng, data, first), mutations(rng, PACKED[suffix](data), first)
    while True:
        if suffix:
            name, content = next(inside)
            yield f"{name}, packed", PACKED[suffix](content)
        yield next(outside)


@pytest.mark.parametrize("name", FORMS)
def test_a_damaged_file_is_read_or_refused(tmp_path: Path, name: str, measured: Measured) -> None:
    sample, suffix = form(name)
    content, rng = sample.content(), np.random.default_rng(zlib.crc32(name.encode()))
    paths = lay(tmp_path / "data", content, suffix)
    valid(read(sample, tmp_path / "data"), sample)
    size = sum(map(len, content.values()))
    told = {"read": 0, "refused": 0}
    sources = {file: damaged(rng, data, suffix, 5 * place) for place, (file, data) in enumerate(content.items())}
    each = EACH_PACKED if suffix else EACH
    for file in itertools.islice(itertools.cycle(content), each):
        kind, data = next(sources[file])
        good = paths[file].read_bytes()
        paths[file].write_bytes(data)
        with case(f"{name}: {file}: {kind}"):
            told[outcome(sample, tmp_path / "data", BESIDES + MULTIPLE * (size + len(data)))] += 1
        paths[file].write_bytes(good)
    assert told["refused"] > 0
    measured(f"data files, {name}: {each} damaged: {told['refused']} refused, {told['read']} read as valid data")


@pytest.mark.parametrize("instead", NO_FILES)
def test_something_else_in_a_files_place_is_refused(tmp_path: Path, instead: str) -> None:
    for name in FORMS:
        sample, suffix = form(name)
        folder = tmp_path / name
        for path in lay(folder, sample.content(), suffix).values():
            good = path.read_bytes()
            path.unlink()
            NO_FILES[instead](path, good)
            told = outcome(sample, folder, BESIDES + 1_000_000)
            # MNIST may be without its writers.
            optional = path.name.startswith(QMNIST) and instead != "empty"
            assert told == ("read" if optional else "refused"), (name, path.name)
            if path.is_dir() and not path.is_symlink():
                [inner.unlink() for inner in path.iterdir()]
                path.rmdir()
            path.unlink(missing_ok=True)
            path.write_bytes(good)


def test_a_file_without_permission_is_refused(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    for name in FORMS:
        sample, suffix = form(name)
        for path in lay(tmp_path / name, sample.content(), suffix).values():
            path.chmod(0)
            assert outcome(sample, tmp_path / name, BESIDES + 1_000_000) == "refused"
            path.chmod(0o600)


ODD = (
    ["null", "true", "0", "-1", "1e999", "-1e999", "1e308", "-1e308", "NaN", "Infinity", '""', "{}", "[]", "[[]]"]
    + ["[null]", "[1e400]", '"\\ud800"', '"\\u0000"', "9" * 4000, "9" * 5000, "1" + "0" * 400, "5e-324", "1.0000001"]
    + ["[" * depth + "]" * depth for depth in (50, 900, 3000, 100_000)]
    + ['{"a":' * depth + "1" + "}" * depth for depth in (50, 900, 100_000)]
    + ["[" * 100_000, '"' + "n" * 1_000_000 + '"', '{"x": [], "y": [], "x": [1]}']
)
PLACES = {"users", "counts", "data", "user", "x", "y", "an x", "a y", "a value"}


def odd_text(place: str, odd: str, x: str, y: str) -> str:
    """A file of LEAF's in which something is odd."""
    fields = {"users": '["w"]', "counts": "[1]", "data": '{"w": {"x": X, "y": Y}}'}
    if place == "user":
        key = odd if odd[0] == odd[-1:] == '"' else "1"
        fields |= {"users": f"[{odd}]", "data": f'{{{key}: {{"x": X, "y": Y}}}}'}
    elif place in fields:
        fields[place] = odd
    x = {"x": odd, "an x": f"[{odd}]", "a value": f"[{x[:-1]}, {odd}]]"}.get(place, f"[{x}]")
    y = {"y": odd, "a y": f"[{odd}]"}.get(place, f"[{y}]")
    text = '{{"users": {users}, "num_samples": {counts}, "user_data": {data}}}'.format(**fields)
    return text.replace("X", x).replace("Y", y)


@pytest.mark.parametrize("place", sorted(PLACES))
def test_odd_json_is_read_or_refused(tmp_path: Path, place: str) -> None:
    """Wrong types, numbers that are none or endless, depth without end, in every place of the table."""
    pixels = ("FEMNIST JSON", "[" + ", ".join(["1.0"] * 783) + "]", "7")
    for name, x, y in (pixels, ("Shakespeare JSON", '"' + "a" * 80 + '"', '"b"')):
        sample, _ = form(name)
        paths = lay(tmp_path / name, sample.content(), "")
        train = next(path for path in paths.values() if path.parent.name == "train")
        for number, odd in enumerate(ODD):
            train.write_text(odd_text(place, odd, x, y))
            with case(f"{name}: odd value {number}: {odd[:40]}"):
                outcome(sample, tmp_path / name, BESIDES + MULTIPLE * (50_000 + train.stat().st_size))


ENCODINGS = ["utf-8-sig", "utf-16", "utf-16-le", "utf-32", "utf-32-be", "utf-7", "cp037"]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_text_in_another_encoding_is_read_or_refused(tmp_path: Path, encoding: str) -> None:
    for name in ("FEMNIST JSON", "Shakespeare JSON", "plays", "a9a", "a9a-sample"):
        sample, _ = form(name)
        for path in lay(tmp_path / name, sample.content(), "").values():
            good = path.read_bytes()
            path.write_bytes(good.decode().encode(encoding, "replace"))
            outcome(sample, tmp_path / name, BESIDES + MULTIPLE * 400_000)
            path.write_bytes(good)
