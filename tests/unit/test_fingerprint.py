"""Fingerprints of a user's own code and numbers: equal for what is equal, another for whatever changes a run."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from airfl.tasks.fingerprint import of_code, of_tensors


def scaled(factor: float) -> Callable[[Tensor], Tensor]:
    def by_factor(values: Tensor) -> Tensor:
        return factor * values

    return by_factor


class Scaled(nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, inputs: Tensor) -> Tensor:
        return self.factor * inputs


class Loss:
    def __init__(self, weight: Any) -> None:
        self.weight = weight

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return outputs

    def other(self, outputs: Tensor) -> Tensor:
        return outputs + 1


def typed(body: str) -> Any:
    """A class without a source, as one that was typed in."""
    names: dict[str, Any] = {"__name__": "typed", "nn": nn}
    exec(f"class Net(nn.Module):\n    def forward(self, inputs):\n        return {body}", names)
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
