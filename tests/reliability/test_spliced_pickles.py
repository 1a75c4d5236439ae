"""Pickles with an injected call at any opcode: nothing is called, whether the rest is read or refused."""

import contextlib
import functools
import pickle
import pickletools
from pathlib import Path

import numpy as np
import pytest

from airfl.learning.tasks.datasets.formats.array_pickle import load_array_pickle
from tests.reliability.scale import Measured, cases
from tests.unit.datasets.support import read_or_refused
from tests.unit.datasets.test_cifar10 import BATCHES, python2_batch, python3_batch
from tests.unit.datasets.test_pickles import LIVE, forms

PIXELS, LABELS = BATCHES[0][0][:2, :40], BATCHES[0][1][:2]
BATCH: dict[str, bytes] = {
    "Python 2": python2_batch(PIXELS, LABELS),
    "protocol 2": python3_batch(PIXELS, LABELS, 2),
    "protocol 5": python3_batch(PIXELS, LABELS, 5),
}
POP = b"0"


def call(form: str, mark: Path) -> bytes:
    """Opcodes that leave on the stack what a call returns which makes the file `mark`; without a header or an end."""
    content = forms("builtins", "eval", f"__import__('pathlib').Path({str(mark)!r}).touch()")[form]
    return content.removesuffix(b".")[2 if content.startswith(b"\x80") else 0 :]


def spliced(content: bytes, place: int, payload: bytes) -> bytes:
    return content[:place] + payload + content[place:]


def places(content: bytes) -> list[int]:
    """Where opcodes begin, behind the header."""
    return [place for _, _, place in pickletools.genops(content) if place is not None and place >= 2]


@pytest.mark.parametrize("batch", BATCH)
def test_no_call_is_made(batch: str, tmp_path: Path, measured: Measured) -> None:
    """Against a test that could not fail: Python's own unpickler makes the call where it is spliced in first."""
    mark, path, generator = tmp_path / "ran", tmp_path / "data_batch_1", np.random.default_rng(5)
    content = BATCH[batch]
    payloads = [call(form, mark) for form in LIVE if form not in ("in a dictionary", "as a key", "in a frame")]
    with contextlib.suppress(ValueError):  # it reads no arrays of numpy 1
        pickle.loads(spliced(content, places(content)[0], payloads[0] + POP), encoding="bytes")
    assert mark.exists()
    mark.unlink()
    count = cases(300, 15_000)
    for place in generator.choice(places(content), count):
        payload = payloads[generator.integers(len(payloads))] + generator.choice([b"", POP])
        read_or_refused(functools.partial(load_array_pickle, path, spliced(content, int(place), payload)), path)
        assert not mark.exists()
    measured(f"{count} pickles of {batch} with a call spliced in: none made")
