"""Amplitudes and sums of non-coherent aggregation in single passes by kernel.c: what torch computes in several."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from airfl.runtime.sampling import PARALLEL, spread
from airfl.runtime.threads import run_threads
from airfl.uplinks.energies.library import load_library
from channels.codewords import Codewords, DigitEnergies
from channels.energy import Tables, superpose

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["amplitudes_of", "superpose_symbols"]


def amplitudes_of(codewords: Codewords, values: Tensor, factors: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Return `codewords.encode(factors * values, weights)`, [devices, resources, m], and the energy of each device.

    The energy is float64, [devices]: the sum of the squares in single precision, or the weight times the number of
    digits that have an element.

    Args:
        codewords: The code.
        values: [devices, m].
        factors: Factor of each device, [devices].
        weights: w, [devices].
    """
    readable = load_library() is not None and values.stride(1) == 1 and _float32_on_cpu(values, factors, weights)
    factors, weights = factors.contiguous(), weights.contiguous()
    if isinstance(codewords, DigitEnergies):
        amplitudes, active = (_digits if readable else _digits_by_torch)(codewords, values, factors, weights)
        return amplitudes, active * weights.double()
    if readable and codewords.lines:
        amplitudes, squares = _linear(codewords, values, factors, weights)
    else:
        amplitudes = codewords.encode(values * factors[:, None], weights)
        squares = amplitudes.square()
    return amplitudes, squares.flatten(1).sum(dim=1).double()  # pairwise sums, which a norm's are not


def _linear(codewords: Codewords, values: Tensor, factors: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Return the amplitudes of energies that are linear in x, and their squares."""
    compiled, lines = load_library(), codewords.lines
    assert compiled is not None
    (devices, entries), resources = values.shape, len(lines)
    slopes = np.array([slope for slope, _ in lines], dtype=np.float32)
    offsets = weights[:, None] * weights.new_tensor([offset for _, offset in lines])
    amplitudes, squares = (values.new_empty(devices, resources, entries) for _ in range(2))

    def fill(first: int, last: int) -> None:
        compiled.airfl_amplitudes(
            *(values.data_ptr(), values.stride(0), factors.data_ptr(), offsets.data_ptr(), slopes.ctypes.data),
            *(devices, resources, first, last, entries, amplitudes.data_ptr(), squares.data_ptr()),
        )

    spread(fill, entries, run_threads() if amplitudes.numel() >= PARALLEL else 1)
    return amplitudes, squares


def _digits(codewords: DigitEnergies, values: Tensor, factors: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Return the amplitudes of digits, and how many of each device's elements are active, int64 [devices]."""
    import torch

    compiled = load_library()
    assert compiled is not None
    (devices, entries), resources = values.shape, codewords.resources
    middles = weights[:, None] * weights.new_tensor(codewords.values)
    halves, roots = weights / 2, weights.sqrt()
    amplitudes, active = values.new_empty(devices, resources, entries), [torch.zeros(devices, dtype=torch.int64)]

    def fill(first: int, last: int) -> None:
        own = torch.zeros_like(active[0])
        compiled.airfl_digit_amplitudes(
            *(values.data_ptr(), values.stride(0), factors.data_ptr(), middles.data_ptr(), halves.data_ptr()),
            *(roots.data_ptr(), devices, resources, first, last, entries, amplitudes.data_ptr(), own.data_ptr()),
        )
        active.append(own)

    spread(fill, entries, run_threads() if amplitudes.numel() >= PARALLEL else 1)
    return amplitudes, torch.stack(active).sum(dim=0)


def _digits_by_torch(
    codewords: DigitEnergies, values: Tensor, factors: Tensor, weights: Tensor
) -> tuple[Tensor, Tensor]:
    amplitudes = codewords.encode(values * factors[:, None], weights)
    return amplitudes, (amplitudes > 0).sum(dim=(1, 2))


def superpose_symbols(sums: Tensor, tables: Tables, phases: Tensor, amplitudes: Tensor) -> None:
    """Do what `channels.energy.superpose` does, in one pass where kernel.c is compiled."""
    compiled = load_library()
    if compiled is None or not amplitudes.is_contiguous() or not _float32_on_cpu(sums, amplitudes):
        superpose(sums, tables, phases, amplitudes)
        return
    (real, imaginary), phases = tables, phases.contiguous()
    devices, resources, slots = amplitudes.shape

    def add(first: int, last: int) -> None:
        compiled.airfl_add_symbols(
            *(real.ctypes.data, imaginary.ctypes.data, phases.data_ptr(), phases.shape[1], amplitudes.data_ptr()),
            *(devices, resources, first, last, slots, sums.data_ptr()),
        )

    spread(add, slots, run_threads() if amplitudes.numel() >= PARALLEL else 1)


def _float32_on_cpu(*tensors: Tensor) -> bool:
    """Whether kernel.c can read them."""
    import torch

    return all(one.device.type == "cpu" and one.dtype == torch.float32 for one in tensors)
