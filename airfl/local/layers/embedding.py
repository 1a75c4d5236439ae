"""Embeddings of integers, and items of a sequence."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn

from airfl.local.layers.layer import Parts, squares_of


class Embedding:
    """A row of every device's table for each integer: [devices, batch, ...] -> [devices, batch, ..., size]."""

    def __init__(self, module: nn.Module) -> None:
        layer = cast(nn.Embedding, module)
        if layer.padding_idx is not None or layer.max_norm is not None or layer.scale_grad_by_freq or layer.sparse:
            raise NotImplementedError("an embedding with padding, a largest norm, scaled or sparse gradients")
        self._words, self._size = layer.num_embeddings, layer.embedding_dim

    def forward(self, parts: Parts, inputs: Parts, devices: int) -> tuple[Tensor, Tensor]:
        """See `Layer`; the integers are saved."""
        tables = parts[0].reshape(-1, self._size)
        return tables[self._places(inputs[0], devices)], inputs[0]

    def backward(self, parts: Parts, saved: Tensor, slope: Tensor) -> Parts:
        """See `Layer`: an integer has no slope."""
        return (slope.new_zeros(saved.shape),)

    def gradient(self, saved: Tensor, slope: Tensor, devices: int) -> Parts:
        """See `ParametricLayer`."""
        return (self._sums(self._places(saved, devices), slope, devices),)

    def each(self, saved: Tensor, slope: Tensor, devices: int) -> Parts:
        """See `ParametricLayer`: every sample has a table of its own."""
        samples = devices * saved.shape[1]
        found = self._sums(self._places(saved.flatten(0, 1), samples), slope.flatten(0, 1), samples)
        return (found.view(devices, -1, self._words, self._size),)

    def squares(self, saved: Tensor, slope: Tensor, devices: int) -> Tensor:
        """See `ParametricLayer`."""
        return squares_of(self.each(saved, slope, devices))

    def _places(self, integers: Tensor, tables: int) -> Tensor:
        """Rows of all tables below each other; integers [tables, ...]."""
        starts = torch.arange(tables, device=integers.device) * self._words
        return integers + starts.view(-1, *[1] * (integers.dim() - 1))

    def _sums(self, places: Tensor, slope: Tensor, tables: int) -> Tensor:
        # unlike index_add_, the same on a GPU every time
        rows = tables * self._words
        found: Tensor = torch.ops.aten.embedding_dense_backward(slope.contiguous(), places, rows, -1, False)
        return found.view(tables, self._words, self._size)


class Long:
    """Integers of 64 bits."""

    def forward(self, parts: Parts, inputs: Parts, devices: int) -> tuple[Tensor, None]:
        """See `Layer`."""
        return inputs[0].long(), None

    def backward(self, parts: Parts, saved: None, slope: Tensor) -> Parts:
        """See `Layer`: what is rounded has no slope."""
        return (torch.zeros_like(slope),)


class Item:
    """values[:, index]: one item of every sample's sequence, [devices, batch, items, ...] -> [devices, batch, ...]."""

    def __init__(self, index: Any) -> None:
        if not (isinstance(index, tuple) and len(index) == 2 and index[0] == slice(None) and type(index[1]) is int):
            raise NotImplementedError("an index but of one item of every sample")
        self._index: int = index[1]

    def forward(self, parts: Parts, inputs: Parts, devices: int) -> tuple[Tensor, Tensor]:
        """See `Layer`; the sequence is saved for its shape and order in memory."""
        return inputs[0].select(2, self._index), inputs[0]

    def backward(self, parts: Parts, saved: Tensor, slope: Tensor) -> Parts:
        """See `Layer`."""
        found = torch.zeros_like(saved)
        found.select(2, self._index).copy_(slope)
        return (found,)
