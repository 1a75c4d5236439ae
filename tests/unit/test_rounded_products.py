"""What products with rounded inputs make of an update, which the checks of a GPU allow for."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from airfl.runtime.precision import Precision
from experiments.gpu.engines import SIZES, TIMES, limits, products, tolerance, updates
from experiments.gpu.rounding import ROUNDINGS, RoundedProducts, Rounding, cut_to_tf32, nearest_bf16, nearest_tf32
from experiments.gpu.worlds import relative_error, unequal_task

SIZE = {"devices": 2, "batch": 2}
DIGITS: dict[Rounding, int] = {nearest_tf32: 10, cut_to_tf32: 10, nearest_bf16: 7}
"""Rounding -> bits of the mantissa that are left."""


@pytest.mark.parametrize("rounding", DIGITS)
def test_inputs_keep_their_first_digits(rounding: Rounding) -> None:
    """By integers and a power of two; off by half of the last digit, or by one where digits are cut."""
    values = torch.randn(1000, generator=torch.Generator().manual_seed(0))
    found, whole = rounding(values).double().numpy(), values.double().numpy()
    mantissa, exponent = np.frexp(whole)  # in [0.5, 1)
    scaled = mantissa * 2 ** (DIGITS[rounding] + 1)
    wanted = np.trunc(scaled) if rounding is cut_to_tf32 else np.rint(scaled)
    np.testing.assert_array_equal(found, np.ldexp(wanted, exponent - DIGITS[rounding] - 1))


def test_what_is_added_to_a_product_is_not_rounded() -> None:
    layer, inputs = nn.Linear(3, 2), torch.full((1, 3), 1 / 3)
    nn.init.constant_(layer.weight, 1 / 3)
    nn.init.constant_(layer.bias, 1 / 7)
    with torch.no_grad(), RoundedProducts(cut_to_tf32) as mode:
        found = layer(inputs)
    third = math.floor(2**12 / 3) / 2**12  # the first of eleven digits is 1/4
    assert mode.products == 1
    torch.testing.assert_close(found, torch.full((1, 2), 3 * third**2 + 1 / 7), rtol=1e-6, atol=0)


@pytest.mark.parametrize("kind", ["tf32", "bf16"])
def test_the_limit_is_above_what_rounding_does(kind: Precision) -> None:
    """For the maxima of a pool, too: of the CNN they are others where inputs are rounded."""
    wanted = updates("loop", unequal_task("cnn", SIZES), **SIZE)
    assert wanted is not None
    allowed = limits("cnn", wanted, SIZE)
    assert allowed["float32"] == tolerance(products(unequal_task("cnn", SIZES)))
    for rounding in ROUNDINGS[kind]:
        with RoundedProducts(rounding) as mode:
            found = updates("loop", unequal_task("cnn", SIZES), **SIZE)
        assert found is not None
        assert mode.products > 20
        assert 10 * allowed["float32"] < TIMES * relative_error(found, wanted) < allowed[kind]
