"""Embeddings of integers, and the selection of an item of a sequence."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn

from airfl.learning.layers.layer import Tensors, squares_of


class Embedding:
    """Look integers up in every device's own table: [devices, batch, ...] -> [devices, batch, ..., size]."""

    def __init__(self, module: nn.Module) -> None:
        layer = cast(nn.Embedding, module)
        if layer.padding_idx is not None or layer.max_norm is not None or layer.scale_grad_by_freq or layer.sparse:
            raise NotImplementedError("an embedding with padding_idx, max_norm, scale_grad_by_freq or sparse gradients")
        self._words, self._size = layer.num_embeddings, layer.embedding_dim

    def forward(self, parameters: Tensors, inputs: Tensors, devices: int) -> tuple[Tensor, Tensor]:
        """Look the rows up; the integers are saved."""
        tables = parameters[0].reshape(-1, self._size)
        return tables[self._rows(inputs[0], devices)], inputs[0]

    def backward(self, parameters: Tensors, saved: Tensor, grad_output: Tensor) -> Tensors:
        """Return zeros: integers have no gradient."""
        return (grad_output.new_zeros(saved.shape),)

    def gradient(self, saved: Tensor, grad_output: Tensor, devices: int) -> Tensors:
        """Return the gradients of the parameters."""
        return (self._sums(self._rows(saved, devices), grad_output, devices),)

    def each(self, saved: Tensor, grad_output: Tensor, devices: int) -> Tensors:
        """Return the per-sample gradients, as if every sample had a table of its own."""
        samples = devices * saved.shape[1]
        gradients = self._sums(self._rows(saved.flatten(0, 1), samples), grad_output.flatten(0, 1), samples)
        return (gradients.view(devices, -1, self._words, self._size),)

    def squares(self, saved: Tensor, grad_output: Tensor, devices: int) -> Tensor:
        """Return the squared norms of the per-sample gradients."""
        return squares_of(self.each(saved, grad_output, devices))

    def _rows(self, integers: Tensor, tables: int) -> Tensor:
        """Return row numbers in the concatenation of all tables; integers [tables, ...]."""
        starts = torch.arange(tables, device=integers.device) * self._words
        return integers + starts.view(-1, *[1] * (integers.dim() - 1))

    def _sums(self, rows: Tensor, grad_output: Tensor, tables: int) -> Tensor:
        # Unlike index_add_, this is deterministic on a GPU.
        count = tables * self._words
        sums: Tensor = torch.ops.aten.embedding_dense_backward(grad_output.contiguous(), rows, count, -1, False)
        return sums.view(tables, self._words, self._size)


class Long:
    """Conversion to 64-bit integers."""

    def forward(self, parameters: Tensors, inputs: Tensors, devices: int) -> tuple[Tensor, None]:
        """Convert; nothing is saved."""
        return inputs[0].long(), None

    def backward(self, parameters: Tensors, saved: None, grad_output: Tensor) -> Tensors:
        """Return zeros: rounding has no gradient."""
        return (torch.zeros_like(grad_output),)


class Item:
    """values[:, index]: one item of every sample's sequence, [devices, batch, items, ...] -> [devices, batch, ...]."""

    def __init__(self, index: Any) -> None:
        if not (isinstance(index, tuple) and len(index) == 2 and index[0] == slice(None) and type(index[1]) is int):
            raise NotImplementedError("an index other than [:, number]")
        self._index: int = index[1]

    def forward(self, parameters: Tensors, inputs: Tensors, devices: int) -> tuple[Tensor, Tensor]:
        """Select the item; the sequence is saved for its shape and memory format."""
        return inputs[0].select(2, self._index), inputs[0]

    def backward(self, parameters: Tensors, saved: Tensor, grad_output: Tensor) -> Tensors:
        """Return the gradient with respect to the inputs."""
        gradient = torch.zeros_like(saved)
        gradient.select(2, self._index).copy_(grad_output)
        return (gradient,)
