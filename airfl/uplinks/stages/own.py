"""User-defined stages in a run: what they return is checked, and their errors become one line.

Stages that come with airfl are tested and not checked here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, TypeAlias

from airfl.errors import UserError, comes_with_airfl, described, one_line_errors
from airfl.runtime.store import DeviceState

if TYPE_CHECKING:
    from torch import Tensor

Batch: TypeAlias = Any
Coder: TypeAlias = Any
MessageBound: TypeAlias = Any
Round: TypeAlias = Any
Stage: TypeAlias = Any
"""Of `stage.py`, which imports this module, so that it cannot be imported here."""


OF_SHARES = 1e-9
"""Tolerance of a share computed in double precision."""


def stated_bound(stage: Stage, before: MessageBound) -> MessageBound:
    """Return the bound that a stage states. Raises UserError if a user-defined one states what no message can have.

    Args:
        stage: The stage.
        before: The bound on the message before it.
    """
    if comes_with_airfl(stage):
        return stage.bound(before)
    name = _name(stage)
    with one_line_errors(f"{name}: bound()"):
        after: object = stage.bound(before)
    if not isinstance(after, type(before)):
        raise UserError(
            f"{name}: bound() must return a MessageBound, got {described(after)}; return "
            "dataclasses.replace(before, ...) with what the stage changes, or before itself"
        )
    for field, (allowed, holds) in FIELDS.items():
        value = getattr(after, field)
        if not holds(value):
            raise UserError(f"{name}: bound() must state {field} as {allowed}, got {value!r}")
    factor = getattr(stage, "lipschitz", None)
    if factor is not None and not (_real(factor) and 0 <= factor < math.inf):
        raise UserError(f"{name}: lipschitz must be a finite number of at least 0, or None, got {factor!r}")
    adds_up = getattr(stage, "noise_adds_up", False)
    if not isinstance(adds_up, bool):
        raise UserError(f"{name}: noise_adds_up must be True or False, got {adds_up!r}")
    return replace(after, seen=min(after.seen, 1.0))


def _integer(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _real(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _positive(value: Any) -> bool:
    return _real(value) and value > 0  # false of nan


def _count(value: Any) -> bool:
    return _integer(value) and value >= 0


A_BOUND = "a number above 0, inf for no bound"
A_COUNT = "an integer of at least 0 (round up with math.ceil)"
FIELDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "entries": ("an integer of at least 1", lambda value: _integer(value) and value >= 1),
    "peak": (A_BOUND, _positive),
    "rms": (A_BOUND, _positive),
    "sensitivity": (A_BOUND, _positive),
    "noise_std": ("a finite number of at least 0", lambda value: _real(value) and 0 <= value < math.inf),
    "values": (
        "an integer of at least 1, or -1 for all entries",
        lambda value: _integer(value) and (value >= 1 or value == -1),
    ),
    "value_bits": ("a finite number above 0", lambda value: _positive(value) and value < math.inf),
    "side_bits": (A_COUNT, _count),
    "mask_bits": (A_COUNT, _count),
    "device_state": (
        "a tuple of DeviceState",
        lambda value: isinstance(value, tuple) and all(isinstance(one, DeviceState) for one in value),
    ),
    "seen": ("a share above 0 and at most 1", lambda value: _positive(value) and value <= 1 + OF_SHARES),
    "attained": ("True or False", lambda value: isinstance(value, bool)),
    "local_multiplier": (
        "None or a number of at least 0",
        lambda value: value is None or (_real(value) and value >= 0),
    ),
}
"""For each field of a bound: what is allowed, and a function that tells whether a value is."""


def checked_coder(stage: Stage, opened: Round, kind: type[Coder]) -> Coder:
    """Open a user-defined stage for a round, and return its coder with checks around its functions.

    Args:
        stage: The stage.
        opened: The round.
        kind: The class of coders, whose module imports this one.

    The functions of the coder raise UserError, with the stage and the function, if the one that they call raises an
    error, changes its argument in place, or returns anything but finite numbers of the expected type and shape.
    """
    name = _name(stage)
    with one_line_errors(f"{name}: open()"):
        coder: object = stage.open(opened)
    if not isinstance(coder, kind):
        raise UserError(f"{name}: open() must return a Coder, got {described(coder)}")
    if not (_real(coder.noise_gain) and not coder.noise_gain < 0):
        raise UserError(
            f"{name}: noise_gain of the Coder must be a number of at least 0, or nan if decode() is not linear, got "
            f"{coder.noise_gain!r}"
        )
    return _CheckedCoder(name, coder).checked


class _CheckedCoder:
    """The coder of a user-defined stage in one round, with checks around its functions."""

    def __init__(self, name: str, coder: Coder) -> None:
        self._name, self._coder = name, coder
        self._entries: int | None = None  # before the stage, known once a message has been encoded

    @property
    def checked(self) -> Coder:
        """The coder with checks. The norm of a message cannot be computed from slabs, so it is given whole ones."""
        expand = None if self._coder.expand is None else self._expand
        return replace(self._coder, encode=self._encode, decode=self._decode, expand=expand, elementwise=False)

    def _encode(self, batch: Batch) -> Batch:
        """Return the encoded messages with their norms. Norms that came with the batch are those of other values if a
        stage replaces these by `dataclasses.replace`, and energies would follow them."""
        what, (rows, self._entries) = f"{self._name}: encode()", batch.values.shape
        before = _versions(batch)
        with one_line_errors(what):
            message: object = self._coder.encode(batch)
        if not isinstance(message, type(batch)):
            raise UserError(f"{what} must return a Batch, got {described(message)}; return batch.of(messages)")
        if _versions(batch) != before:
            raise UserError(f"{what} must not change batch.values or batch.scale in place; return batch.of(messages)")
        self._check(what, message.values, (rows, None), batch.values)
        self._check(f"{what}, for `scale`,", message.scale, (rows,), batch.scale)
        norms = message.values.norm(dim=1)
        if not (norms * message.scale).isfinite().all():
            raise UserError(f"{self._name}: a message is not finite although the update is; correct encode()")
        return replace(message, known_norms=norms)

    def _decode(self, mean: Tensor) -> Tensor:
        what = f"{self._name}: decode()"
        with one_line_errors(what):
            decoded: Tensor = self._coder.decode(mean)
        self._check(what, decoded, (self._entries,), mean)
        if not decoded.isfinite().all() and mean.isfinite().all():
            raise UserError(f"{what} returned numbers that are not finite, although the mean message is; correct it")
        return decoded

    def _expand(self, messages: Tensor) -> Tensor:
        what = f"{self._name}: expand()"
        assert self._coder.expand is not None
        with one_line_errors(what):
            expanded: Tensor = self._coder.expand(messages)
        self._check(what, expanded, (len(messages), self._entries), messages)
        return expanded

    def _check(self, what: str, given: object, shape: tuple[int | None, ...], like: Tensor) -> None:
        """Raise UserError unless a tensor was given with this shape, where None is any length, the type and device of
        another tensor, and no gradient."""
        import torch

        wanted = f"{str(like.dtype).removeprefix('torch.')} [{', '.join('m' if n is None else str(n) for n in shape)}]"
        if not isinstance(given, torch.Tensor):
            raise UserError(f"{what} must return a tensor, {wanted}, got {described(given)}")
        fits = given.ndim == len(shape) and all(n in (None, m) for n, m in zip(shape, given.shape, strict=True))
        if not fits or given.dtype != like.dtype:
            raise UserError(f"{what} must return {wanted}, got {described(given)}")
        if given.device != like.device:
            raise UserError(f"{what} must return a tensor on {like.device}, got one on {given.device}")
        if given.requires_grad:
            raise UserError(f"{what} must return a tensor without a gradient; call its detach()")


def _name(stage: Stage) -> str:
    return f"stage {type(stage).__name__}"


def _versions(batch: Batch) -> list[int]:
    """Return how often torch has changed each tensor of a batch in place; -1 where it does not count."""
    return [-1 if tensor.is_inference() else tensor._version for tensor in (batch.values, batch.scale)]
