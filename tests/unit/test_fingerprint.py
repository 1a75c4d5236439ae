"""Fingerprints of user-defined code and numbers: equal for equal input, and different for any change that affects a
run."""

import functools
import importlib
import pickle
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from airfl.config.plugins import defined_parts, load_plugin, packed
from airfl.learning.fingerprint import of_code, of_tensors
from airfl.storage.fingerprint import fingerprint, fingerprint_of_code
from channels.digital.nr_tables import error_table as load_of_two
from channels.fading import FunctionChannel

pytestmark = pytest.mark.usefixtures("no_plugins_left")


def scaled(factor: float) -> Callable[[Tensor], Tensor]:
    return lambda values: factor * values


class Scaled(nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor


class Loss:
    def __init__(self, weight: Any) -> None:
        self.weight = weight

    def __call__(self, outputs: Tensor) -> Tensor:
        return outputs

    def other(self, outputs: Tensor) -> Tensor:
        return outputs + 1


def typed(body: str, beside: str = "") -> Any:
    """A class without a source, as one that was typed in."""
    names: dict[str, Any] = {"__name__": "typed", "nn": nn}
    text = f"{beside}\nclass Net(nn.Module):\n    def forward(self, inputs):\n        return {body}"
    exec(compile(text, "typed in", "exec"), names)
    return names["Net"]()


two = [lambda values: values + 1, lambda values: values - 1]  # on one line
three = [lambda values: values + 1, lambda values: values + 1]
PAIRS: dict[str, tuple[Any, Any]] = {
    "closure": (scaled(1.0), scaled(2.0)),
    "default": (functools.partial(scaled, 1.0), functools.partial(scaled, 2.0)),
    "attribute": (Scaled(1.0), Scaled(2.0)),
    "attribute that is a tensor": (Loss(torch.zeros(2)), Loss(torch.ones(2))),
    "attribute of a bound method": (Loss(1).other, Loss(2).other),
    "method": (Loss(1).other, Loss(1).__call__),
    "structure": (nn.Sequential(nn.Linear(2, 2)), nn.Sequential(nn.Linear(2, 2), nn.ReLU())),
    "setting of a layer": (nn.LeakyReLU(0.1), nn.LeakyReLU(0.2)),
    "mode": (nn.Linear(2, 2), nn.Linear(2, 2).eval()),
    "on one line": (two[0], two[1]),
    "without a source": (typed("inputs + 1"), typed("inputs + 2")),
    "a function of torch": (torch.nn.functional.mse_loss, torch.nn.functional.l1_loss),
    "a function that it uses": (typed("f(inputs)", "f = lambda x: x"), typed("f(inputs)", "f = lambda x: 2 * x")),
}


@pytest.mark.parametrize("pair", PAIRS)
def test_what_computes_something_else_has_another(pair: str) -> None:
    one, other = PAIRS[pair]
    assert of_code(one) != of_code(other)
    assert of_code(one) == of_code(one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (scaled(1.0), scaled(1.0)),
        (Scaled(1.0), Scaled(1.0)),
        (Loss([1, {"a": 2}]), Loss([1, {"a": 2}])),
        (nn.Linear(2, 3), nn.Linear(2, 3)),  # whose parameters differ, which are looked at by themselves
        (typed("inputs"), typed("inputs")),
        (three[0], three[1]),
    ],
)
def test_what_is_the_same_has_the_same(one: Any, other: Any) -> None:
    assert of_code(one) == of_code(other)


def test_numbers_are_known_by_their_bytes_type_and_shape() -> None:
    zeros = torch.zeros(2, 3)
    several = [[zeros], [zeros.T], [zeros.double()], [zeros, zeros], [zeros + 1], [torch.zeros(6)]]
    assert len({of_tensors(one) for one in several}) == len(several)
    assert of_tensors([zeros.T.contiguous()]) == of_tensors([zeros.T])


def test_code_that_holds_itself_comes_to_an_end() -> None:
    loss = Loss(None)
    loss.weight = [loss, loss.other]
    assert of_code(loss) == of_code(loss)


OWN = """
import functools
import numpy as np
from dataclasses import dataclass
from channels.fading import FlatFading, Exponential
from channels.part import parameter

SHAPE, TABLE = 2.0, np.array([1.0, 2.0])

@dataclass(frozen=True)
class Stage:
    share: float = 0.5
    def of(self, values):
        return self.share * values

STAGES = (Stage(0.25),)

@functools.cache
def helper(value):
    return value + other(value) if value else value

def other(value, by=lambda value=1: value):
    return helper(value - 1) * 2

def unrelated(value):
    return value + 100

class Mine(FlatFading):
    name = "mine-fade"
    share: float = parameter(default=0.5, description="of nothing")
    def law(self):
        def inner(value):
            return helper(value) + SHAPE * TABLE[0] + STAGES[0].of(value) + beside.far(value)
        return Exponential().law() if inner else None
"""
EDITS = {
    "a number": ("SHAPE, TABLE = 2.0", "SHAPE, TABLE = 3.0"),
    "an array": ("[1.0, 2.0]", "[1.0, 2.5]"),
    "a class": ("self.share * values", "self.share + values"),
    "what a frozen object holds": ("Stage(0.25)", "Stage(0.75)"),
    "a function": ("else value", "else -value"),
    "a function of a function, in a circle": ("- 1) * 2", "- 1) * 3"),
    "a default": ("value=1", "value=2"),
    "a module": ("", "value + 1"),
}


def own(before: str = "", after: str = "value") -> Any:
    """The part of that file, changed in a place, or the module beside it."""
    beside = types.ModuleType("mine_beside")
    exec(compile(f"def far(value):\n    return {'value' if before else after}", "mine_beside.py", "exec"), vars(beside))
    names: dict[str, Any] = {"__name__": "mine", "beside": beside}
    exec(compile(OWN.replace(before, after) if before else OWN, "mine.py", "exec", dont_inherit=True), names)
    return names["Mine"]()


@pytest.mark.parametrize("edit", EDITS.values(), ids=list(EDITS))
def test_what_a_part_uses_beside_its_class_is_in_its_fingerprint(edit: tuple[str, str]) -> None:
    """And what it does not use is not."""
    assert fingerprint(own(*edit)) != fingerprint(own())
    assert fingerprint(own("value + 100", "value - 100")) == fingerprint(own()) == fingerprint(own())


def told(code: str, given: bytes, folder: Path | None = None) -> list[str]:
    """The lines of another process that is sent an object."""
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, input=given, stdout=subprocess.PIPE, check=True, cwd=folder)
    return done.stdout.decode().splitlines()


def test_it_is_the_same_in_another_process(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(OWN.replace(" + beside.far(value)", ""))
    part = defined_parts(load_plugin(file))[0]()
    code = (
        "import pickle, sys; from airfl.storage.fingerprint import fingerprint\n"
        "print(fingerprint(pickle.load(sys.stdin.buffer)))"
    )
    assert told(code, packed(part, [type(part)])) == [fingerprint(part)]


def test_a_function_under_a_cache_is_known_by_its_code() -> None:
    """As a parameter of a part, and as a loss."""
    one, other = (functools.cache(lambda given, to=power: given**to) for power in (1, 2))
    channels = [FunctionChannel(function=function) for function in (one, other, functools.lru_cache(two[0]))]
    assert len({fingerprint(channel) for channel in channels}) == 3
    assert of_code(one) != of_code(other) != of_code(functools.cache(two[0])) != of_code(functools.cache(two[1]))


CACHED = """
import functools

@functools.lru_cache(maxsize=7, typed=True)
def fibonacci(number):
    return number if number < 2 else fibonacci(number - 1) + fibonacci(number - 2)

class Counted:
    @functools.cache
    def of(self, number):
        return fibonacci(number)

    @staticmethod
    @functools.cache
    def twice(number):
        return 2 * number
"""
CHECKED = """
import pickle, sys
kind, found = pickle.load(sys.stdin.buffer)
of = kind.of.__wrapped__.__globals__["fibonacci"]
print(kind().of(20), kind.twice(4), kind.of.cache_info().currsize, of.cache_parameters(), of.__name__)
print(found(3), found.cache_info().maxsize)
"""


def test_functions_under_a_cache_arrive_where_their_module_does_not(tmp_path: Path) -> None:
    """Those that call themselves, methods, and what is no function. What was in a cache stays here."""
    file = tmp_path / "cached.py"
    file.write_text(CACHED)
    kind: Any = load_plugin(file).Counted
    assert kind().of(30) == 832040
    given = packed((kind, functools.lru_cache(functools.partial(pow, 2))), [kind])
    assert told(CHECKED, given, tmp_path) == ["6765 8 1 {'maxsize': 7, 'typed': True} fibonacci", "8 128"]


def test_an_installed_function_under_a_cache_goes_by_its_name() -> None:
    assert pickle.loads(packed(load_of_two)) is load_of_two


def test_code_has_one_hash_in_any_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where classes of two modules have the same name."""
    monkeypatch.syspath_prepend(str(tmp_path))
    kinds = []
    for module, factor in (("the_first_block", 1), ("the_second_block", 2)):
        text = f"class Block:\n    def times(self, one):\n        return {factor} * one\n"
        (tmp_path / f"{module}.py").write_text(text)
        kinds.append(importlib.import_module(module).Block)
    one, other = kinds
    assert fingerprint_of_code([one, other]) == fingerprint_of_code([other, one])
    assert fingerprint_of_code([one]) != fingerprint_of_code([other])
