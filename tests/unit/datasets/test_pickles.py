"""Malicious pickles are refused in one line, with nothing run, imported or allocated."""

import copyreg
import functools
import os
import pickle
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from airfl.learning.tasks.datasets.formats.array_pickle import ALLOWED, _Copies, load_array_pickle
from tests.unit.datasets.support import REFUSED, apart, peak_of, put, read_or_refused, refusal
from tests.unit.datasets.test_cifar10 import BATCHES, python2_batch, python3_batch

PATH = Path("cifar-10-batches-py") / "data_batch_1"  # only named


def refused_pickle(content: bytes) -> str:
    """The one line in which a pickle is refused."""
    return refusal(lambda: load_array_pickle(PATH, content), PATH)


def name_of(module: str, name: str) -> bytes:
    return f"c{module}\n{name}\n".encode()


def text_of(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value.encode())) + value.encode()


def bytes_of(value: bytes) -> bytes:
    return b"T" + struct.pack("<i", len(value)) + value


def number(value: int) -> bytes:
    content = pickle.encode_long(value)
    return b"\x8b" + struct.pack("<i", len(content)) + content


def items(*values: bytes) -> bytes:
    return b"(" + b"".join(values) + b"t"


def whole(value: bytes, key: bytes | None = None) -> bytes:
    """The pickle of a dictionary with one value."""
    return b"\x80\x04}" + (bytes_of(b"data") if key is None else key) + value + b"s."


BYTE_TYPE = name_of("numpy", "dtype") + items(bytes_of(b"u1"), number(0), number(1)) + b"R"
OF_ARRAY = items(name_of("numpy", "ndarray"), items(number(0)), bytes_of(b"b"))
EMPTY_ARRAY = name_of("numpy.core.multiarray", "_reconstruct") + OF_ARRAY + b"R"
STATE = [number(1), items(number(2), number(3)), BYTE_TYPE, b"\x89", bytes_of(bytes(range(6)))]
VERSION, SHAPE, KIND, _ORDER, CONTENT = range(5)


def array(**changed: bytes) -> bytes:
    """An array of 2 x 3 bytes as numpy pickles it, parts of its state changed."""
    state = list(STATE)
    for part, value in changed.items():
        state[globals()[part.upper()]] = value
    return EMPTY_ARRAY + items(*state) + b"b"


def forms(module: str, name: str, argument: str) -> dict[str, bytes]:
    """Ways in which a pickle can call module.name(argument)."""
    called, given = name_of(module, name), text_of(argument)
    return {
        "GLOBAL, REDUCE": b"\x80\x02" + called + given + b"\x85R.",
        "STACK_GLOBAL, REDUCE": b"\x80\x04" + text_of(module) + text_of(name) + b"\x93" + given + b"\x85R.",
        "INST": b"(" + given + f"i{module}\n{name}\n.".encode(),
        "OBJ": b"(" + called + given + b"o.",
        "NEWOBJ": b"\x80\x02" + called + given + b"\x85\x81.",
        "NEWOBJ_EX": b"\x80\x04" + called + given + b"\x85}\x92.",
        "BUILD": b"\x80\x02" + called + b"}" + given + b"Nsb.",
        "in a dictionary": whole(called + given + b"\x85R"),
        "as a key": whole(b"N", key=called + given + b"\x85R"),
        "in an array": whole(array(content=called + given + b"\x85R")),
        "as a type": whole(array(kind=called + given + b"\x85R")),
        "in a frame": b"\x80\x04\x95" + struct.pack("<Q", len(called + given) + 3) + called + given + b"\x85R.",
    }


LIVE = ["GLOBAL, REDUCE", "STACK_GLOBAL, REDUCE", "INST", "OBJ", "in a dictionary", "as a key", "in a frame"]
CALLED = {
    ("os", "system"): "touch {}",
    ("posix", "system"): "touch {}",
    ("builtins", "eval"): "open({!r}, 'w')",
    ("builtins", "exec"): "open({!r}, 'w')",
    ("__builtin__", "eval"): "open({!r}, 'w')",
    ("subprocess", "getoutput"): "touch {}",
    ("runpy", "run_path"): "{}",
    ("pathlib", "Path.touch"): "{}",
    ("numpy", "memmap"): "{}",
    ("numpy", "dtype.type"): "{}",
    ("numpy.core.multiarray", "fromfile"): "{}",
    ("_codecs", "decode"): "{}",
    ("airfl.learning.tasks.datasets.formats.array_pickle", "pickle.loads"): "{}",
}


@pytest.mark.parametrize(("module", "name"), [("builtins", "eval"), ("os", "system")])
@pytest.mark.parametrize("form", LIVE)
def test_the_payloads_would_work(tmp_path: Path, module: str, name: str, form: str) -> None:
    """Against a test that could not fail: Python's own unpickler runs these."""
    mark = tmp_path / "ran"
    argument = {"eval": f"__import__('pathlib').Path({str(mark)!r}).touch()", "system": f"touch {mark}"}[name]
    pickle.loads(forms(module, name, argument)[form])
    assert mark.exists()


@pytest.mark.parametrize(("module", "name"), CALLED)
@pytest.mark.parametrize("form", forms("", "", ""))
def test_a_pickle_that_names_a_function_is_refused(tmp_path: Path, form: str, module: str, name: str) -> None:
    mark = tmp_path / "ran"
    content = forms(module, name, CALLED[module, name].format(str(mark)))[form]
    assert f"{module}.{name}" in refused_pickle(content)
    assert not mark.exists()


def test_nothing_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = tmp_path / "imported"
    (tmp_path / "airfl_probe.py").write_text(f"open({str(mark)!r}, 'w').close()\ndef run(*_): pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    for content in forms("airfl_probe", "run", "x").values():
        refused_pickle(content)
    assert "airfl_probe" not in sys.modules
    assert not mark.exists()


def test_a_refusal_is_one_line_whatever_the_pickle_asks_for() -> None:
    content = b"\x80\x04" + text_of("os\nread: all is well\x1b[2J") + text_of("x" * 100_000) + b"\x93."
    line = refused_pickle(content)
    assert line.isprintable()
    assert len(line) < len(str(PATH)) + 1000


@pytest.fixture
def extension() -> Iterator[None]:
    """os.system as extension 7, already looked up once by somebody."""
    copyreg.add_extension("os", "system", 7)
    yield
    copyreg.remove_extension("os", "system", 7)
    copyreg.clear_extension_cache()  # type: ignore[attr-defined]


@pytest.mark.usefixtures("extension")
@pytest.mark.parametrize("looked_up", [False, True], ids=["fresh", "looked up before"])
@pytest.mark.parametrize("opcode", [b"\x82\x07", b"\x83\x07\x00", b"\x84\x07\x00\x00\x00"], ids=["1", "2", "4"])
def test_registered_extensions_are_refused(tmp_path: Path, opcode: bytes, looked_up: bool) -> None:
    mark = tmp_path / "ran"
    if looked_up:
        assert pickle.loads(opcode + b".") is os.system
    content = whole(opcode + text_of(f"touch {mark}") + b"\x85R")
    refused_pickle(content)
    assert not mark.exists()


NESTED = b")" + b"\x85" * 5000
ODD: dict[str, bytes] = {
    "binary persistent id": whole(text_of("x") + b"Q"),
    "out-of-band buffer": b"\x80\x05\x97.",
    "read-only buffer": b"\x80\x05\x97\x98.",
    "a newer protocol": b"\x80\x63}.",
    "type of objects": whole(array(kind=name_of("numpy", "dtype") + items(bytes_of(b"O")) + b"R")),
    "type O8": whole(array(kind=name_of("numpy", "dtype") + items(text_of("O8"), b"\x89", b"\x88") + b"R")),
    "type of records": whole(array(kind=name_of("numpy", "dtype") + items(text_of("u1,O")) + b"R")),
    "type of a number": whole(array(kind=name_of("numpy", "dtype") + items(number(10**5000)) + b"R")),
    "type of a tuple": whole(array(kind=name_of("numpy", "dtype") + items(NESTED) + b"R")),
    "type without a name": whole(array(kind=name_of("numpy", "dtype") + b")R")),
    "no type": whole(array(kind=b"N")),
    "the type itself": whole(array(kind=name_of("numpy", "dtype"))),
    "another length": whole(array(shape=items(number(5)))),
    "10^30 bytes": whole(array(shape=items(number(10**30)))),
    "nothing of 10^30": whole(array(shape=items(number(10**30), number(0)), content=bytes_of(b""))),
    "a negative length": whole(array(shape=items(number(-6)))),
    "two negative lengths": whole(array(shape=items(number(-2), number(-3)))),
    "an unknown length": whole(array(shape=items(number(-1)))),
    "a true length": whole(array(shape=items(b"\x88", number(6)))),
    "a length of 6.0": whole(array(shape=items(b"G" + struct.pack(">d", 6.0)))),
    "a list of lengths": whole(array(shape=b"]" + number(6) + b"a")),
    "a length alone": whole(array(shape=number(6))),
    "100 dimensions": whole(array(shape=items(*[number(1)] * 100), content=bytes_of(b"x"))),
    "a list of objects": whole(array(content=b"]" + number(6) + b"a")),
    "no content": whole(array(content=b"N")),
    "an array as content": whole(array(content=array())),
    "a state of six": whole(EMPTY_ARRAY + items(*STATE, b"N") + b"b"),
    "a state of attributes": whole(EMPTY_ARRAY + b"}" + text_of("value") + text_of("x") + b"sb"),
    "slots": whole(EMPTY_ARRAY + b"N}" + text_of("__class__") + name_of("numpy", "dtype") + b"s\x86b"),
    "a state for the class": whole(name_of("numpy", "ndarray") + items(*STATE) + b"b"),
    "an array that is called": whole(array() + b")R"),
    "appended to an array": whole(array() + number(1) + b"a"),
    "another encoding": whole(name_of("_codecs", "encode") + text_of("x") + text_of("rot13") + b"\x86R"),
    "bytes encoded": whole(name_of("_codecs", "encode") + bytes_of(b"x") + text_of("latin1") + b"\x86R"),
    "not latin1": whole(name_of("_codecs", "encode") + text_of("€") + text_of("latin1") + b"\x86R"),
    "lists as keys": whole(b"N", key=b"]"),
    "a list": b"\x80\x04].",
    "nothing": b"\x80\x04N.",
    "an array alone": b"\x80\x04" + array() + b".",
    "nested tuples": b"\x80\x04" + b")" + b"\x85" * 100_000 + b".",
    "an empty stack": b"\x80\x04.",
    "a stack that runs out": b"\x80\x04}ss.",
    "no end": b"\x80\x04}",
    "no content at all": b"",
    "not a pickle": b"\x89PNG\r\n\x1a\n",
    "a web page": b"<!DOCTYPE html>\n<html>",
}


@pytest.mark.parametrize("odd", ODD)
def test_odd_pickles_are_refused(odd: str) -> None:
    assert refused_pickle(ODD[odd]).isprintable()


def test_the_odd_ones_are_not_far_from_a_good_one() -> None:
    read = load_array_pickle(PATH, whole(array()))
    np.testing.assert_array_equal(read[b"data"], [[0, 1, 2], [3, 4, 5]])
    assert read[b"data"].dtype == np.uint8
    read = load_array_pickle(PATH, whole(array(_order=b"\x88")))
    np.testing.assert_array_equal(read[b"data"], [[0, 2, 4], [1, 3, 5]])


def test_a_pickle_leaves_the_reader_as_it_was() -> None:
    """BUILD may set attributes of what stands for numpy's functions, for every file that is read afterwards."""
    for module, name in [("_codecs", "encode"), ("numpy.core.multiarray", "_reconstruct"), ("numpy", "ndarray")]:
        state = b"N}" + text_of("__defaults__") + items(text_of("latin1")) + b"s\x86"
        state_of_instance = b"}" + text_of("left") + text_of("behind") + b"s"
        for given in (state, state_of_instance):
            refused_pickle(b"\x80\x04" + name_of(module, name) + given + b"b.")
    for made in ALLOWED.values():
        stand_in = made(_Copies(0))
        assert not hasattr(stand_in, "left")
        assert getattr(stand_in, "__defaults__", None) is None


ANNOUNCED: dict[str, bytes] = {
    # Not billions: a machine that allocates them after all should survive the test.
    "LONG_BINPUT 500,000": b"\x80\x02}r" + struct.pack("<I", 500_000) + b".",
    "PUT 10^30": b"}p" + b"1" + b"0" * 30 + b"\n.",
    "PUT -1": b"}p-1\n.",
    "BINGET 2^31": b"\x80\x02}j\x00\x00\x00\x80.",
    "BINBYTES8 2^63": whole(b"\x8e" + struct.pack("<Q", 1 << 63) + b"x"),
    "BYTEARRAY8 2^40": whole(b"\x96" + struct.pack("<Q", 1 << 40) + b"x"),
    "BINUNICODE8 2^40": whole(b"\x8d" + struct.pack("<Q", 1 << 40) + b"x"),
    "BINBYTES 2^32 - 1": whole(b"B\xff\xff\xff\xff"),
    "BINUNICODE 2^32 - 1": whole(b"X\xff\xff\xff\xff"),
    "BINSTRING 2^31 - 1": whole(b"T\xff\xff\xff\x7f"),
    "BINSTRING -1": whole(b"T\xff\xff\xff\xff"),
    "LONG4 2^31 - 1": whole(b"\x8b\xff\xff\xff\x7f"),
    "LONG4 -1": whole(b"\x8b\xff\xff\xff\xff"),
    "FRAME 2^40": b"\x80\x04\x95" + struct.pack("<Q", 1 << 40) + b"}.",
    "LONG_BINPUT in a frame": b"\x80\x04\x95" + struct.pack("<Q", 7) + b"}r" + struct.pack("<I", 30_000_000) + b".",
}


@pytest.mark.parametrize("announced", ANNOUNCED)
def test_what_a_pickle_announces_is_not_allocated(announced: str) -> None:
    assert peak_of(lambda: refused_pickle(ANNOUNCED[announced])) < 1_000_000


def test_many_remembered_values_are_allowed() -> None:
    puts = b"".join(b"K\x01r" + struct.pack("<I", place) for place in range(5000))
    assert load_array_pickle(PATH, whole(b"](" + puts + b"e")) == {b"data": [1] * 5000}


def test_memory_follows_the_file() -> None:
    """An opcode of one byte that makes an object of hundreds: a batch needs a few ten thousand opcodes, no sets."""
    for opcode in (b"\x8f", b"}", b"]"):
        content = b"\x80\x04}" + bytes_of(b"x") + b"](" + opcode * 300_000 + b"es."
        action = functools.partial(load_array_pickle, PATH, content)
        assert peak_of(lambda action=action: read_or_refused(action, PATH)) < 20_000_000, opcode


EXHAUSTING: dict[str, bytes] = {
    # 2^60 brackets, if a message spells it out.
    "a type of doubled tuples": whole(name_of("numpy", "dtype") + b"(" + b")" + b"2\x86" * 60 + b"tR"),
    # 100 kB each of 10,000 times the same number: a product of 1 GB, computed in as many steps.
    "a shape of huge numbers": whole(array(shape=b"(" + number(1 << 800_000) + b"q\x00" + b"h\x00" * 10_000 + b"t")),
    # The hash of a tuple descends into it without looking at the stack.
    "a key of a million tuples": whole(b"N", key=b")" + b"\x85" * 1_000_000),
}


@pytest.mark.parametrize("exhausting", EXHAUSTING)
def test_a_small_pickle_neither_hangs_nor_crashes(tmp_path: Path, exhausting: str) -> None:
    path = put(tmp_path / "data_batch_1", EXHAUSTING[exhausting])
    call = "load_array_pickle(Path(sys.argv[1]), Path(sys.argv[1]).read_bytes())"
    said = apart(REFUSED.format(home="formats.array_pickle", read="load_array_pickle", call=call), path)
    assert str(path) in said
    assert said.count("\n") == 1


FEW = BATCHES[0][0][:2, :40], BATCHES[0][1][:2]


def test_a_pickle_may_not_be_cut_off_anywhere() -> None:
    for content in (python2_batch(*FEW), python3_batch(*FEW, 4)):
        for length in range(len(content)):
            refused_pickle(content[:length])


def test_a_damaged_pickle_is_read_or_refused() -> None:
    generator = np.random.default_rng(1)
    for content in (python2_batch(*FEW), python3_batch(*FEW, 2), whole(array())):
        for place in generator.integers(0, len(content), 1500):
            damaged = content[:place] + generator.bytes(1) + content[place + 1 :]
            read_or_refused(functools.partial(load_array_pickle, PATH, damaged), PATH)
