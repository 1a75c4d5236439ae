"""User-defined stages: one whose bound or messages are not as they must be ends a run with a one-line error, and
energies follow the messages that it sends."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor

from airfl.errors import MachineError, UserError
from airfl.runtime.store import Store
from airfl.runtime.streams import Streams
from airfl.schemes.names import SCHEMES
from airfl.schemes.recipe import Problem, Recipe
from airfl.uplinks.stages import Batch, Clip, Coder, ErrorFeedback, MessageBound, Round, bound_after, held_to_bound
from airfl.uplinks.stages.stage import open_encoder
from tests import small_data
from tests.conftest import small_settings
from tests.refusals import one_line


@dataclass(frozen=True)
class Changed:
    """Messages changed by a function, and a bound that knows nothing of it."""

    change: Callable[[Tensor], Tensor]

    def bound(self, before: MessageBound) -> MessageBound:
        return before

    def open(self, opened: Round) -> Coder:
        return Coder(encode=lambda batch: batch.of(self.change(batch.messages)), decode=lambda mean: mean)


class Wfl(SCHEMES["wfl-p"]):  # type: ignore[misc]
    """WFL-P with one more stage, the last."""

    name = "wfl-changed"
    change: Callable[[Tensor], Tensor] | None = None

    def recipe(self, problem: Problem) -> Recipe:
        recipe = super().recipe(problem)
        assert Wfl.change is not None
        return replace(recipe, stages=(*recipe.stages, Changed(Wfl.change)))


def run_with(change: Callable[[Tensor], Tensor], monkeypatch: pytest.MonkeyPatch) -> Tensor:
    monkeypatch.setattr(Wfl, "change", staticmethod(change))
    return small_data.run(small_settings("scheme.name=wfl-p").resolved(scheme=Wfl())).parameters


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda messages: messages * (1.001 / messages.norm(dim=1).max()), "norm 1.001"),
        (lambda messages: messages[:, 1:], "25,449 entries"),
        (lambda messages: messages / 0.0, "a message is not finite"),
    ],
)
def test_a_message_that_is_not_as_stated_ends_the_run(
    change: Callable[[Tensor], Tensor], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserError, match=one_line("stage Changed: ", words)):
        run_with(change, monkeypatch)


def test_one_that_keeps_to_its_bound_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = small_data.run(small_settings("scheme.name=wfl-p")).parameters
    np.testing.assert_array_equal(run_with(lambda messages: messages, monkeypatch), plain)


def test_what_comes_with_airfl_is_not_asked() -> None:
    world = small_data.world(small_settings("scheme.name=wfl-p"))
    coder = Coder(encode=lambda batch: Batch(batch.values, batch.scale), decode=lambda mean: mean, elementwise=True)
    assert held_to_bound(coder, world.scenario.recipe.stages, world.scenario.bound) is coder


def halved(batch: Batch) -> Batch:
    return replace(batch, values=batch.values * 0.5)


@dataclass(frozen=True)
class Mine:
    """A stage of these functions."""

    encode: Callable[[Batch], Any] = lambda batch: batch
    decode: Callable[[Tensor], Any] = lambda mean: mean
    expand: Callable[[Tensor], Any] | None = None
    stated: Callable[[MessageBound], Any] = lambda before: before
    noise_gain: Any = 1.0
    lipschitz: Any = None
    noise_adds_up: Any = False

    def bound(self, before: MessageBound) -> Any:
        return self.stated(before)

    def open(self, opened: Round) -> Coder:
        return Coder(self.encode, self.decode, noise_gain=self.noise_gain, expand=self.expand)


class Halved(SCHEMES["wfl-p"]):  # type: ignore[misc]
    """WFL-P whose last stage halves every message, one way or the other."""

    name = "wfl-halved"
    how: ClassVar[Callable[[Batch], Batch]] = halved

    def recipe(self, problem: Problem) -> Recipe:
        recipe = super().recipe(problem)
        return replace(recipe, stages=(*recipe.stages, Mine(type(self).how)))


def test_the_energy_is_that_of_the_messages_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half the message takes a quarter of the energy, also if the stage replaced the values beside their old norms."""

    def energy(how: Callable[[Batch], Batch]) -> Any:
        monkeypatch.setattr(Halved, "how", staticmethod(how))
        with small_data.run(small_settings("scheme.name=wfl-p").resolved(scheme=Halved())).trace() as trace:
            return trace["energy_j"].values[0]  # later rounds train another model

    whole, half, again = map(energy, (lambda batch: batch, halved, lambda batch: batch.of(batch.messages * 0.5)))
    np.testing.assert_allclose(half, whole / 4, rtol=1e-6)
    np.testing.assert_allclose(again, whole / 4, rtol=1e-6)


def opened(*stages: Any) -> Coder:
    """The stages in a round of three devices."""
    everybody = np.arange(3), np.ones(3, dtype=np.bool_)
    return open_encoder(stages, Round(Streams(1), 0, torch.device("cpu"), *everybody, Store(), lambda: torch.zeros(4)))


def a_batch() -> Batch:
    return Batch(torch.ones(3, 4), torch.ones(3))


def divided(batch: Batch) -> Any:
    return 1 // 0


def changed_in_place(batch: Batch) -> Batch:
    batch.values.mul_(0.5)
    return batch


def scaled_in_place(batch: Batch) -> Batch:
    batch.scale.mul_(0.5)
    return batch


@pytest.mark.parametrize(
    ("encode", "words"),
    [
        (lambda batch: batch.messages, "must return a Batch, got float32 [3, 4]; return batch.of(messages)"),
        (lambda batch: None, "must return a Batch, got None"),
        (
            lambda batch: batch.of(batch.messages.numpy()),
            "a tensor, float32 [3, m], got a numpy array of float32 [3, 4]",
        ),
        (lambda batch: batch.of(batch.messages.double()), "must return float32 [3, m], got float64 [3, 4]"),
        (lambda batch: batch.of(batch.messages[0]), "must return float32 [3, m], got float32 [4]"),
        (lambda batch: batch.of(batch.messages[:2]), "must return float32 [3, m], got float32 [2, 4]"),
        (lambda batch: replace(batch, scale=torch.ones(2)), "for `scale`, must return float32 [3], got float32 [2]"),
        (lambda batch: batch.of(batch.messages.requires_grad_()), "without a gradient; call its detach()"),
        (divided, "raised ZeroDivisionError: integer division or modulo by zero (test_own_stages.py, line "),
        (changed_in_place, "must not change batch.values or batch.scale in place; return batch.of(messages)"),
        (scaled_in_place, "must not change batch.values or batch.scale in place"),
    ],
)
def test_what_encode_returns_is_checked(encode: Callable[[Batch], Any], words: str) -> None:
    with pytest.raises(UserError, match=one_line(words, begins="stage Mine: encode()")):
        opened(Mine(encode), Clip(1.0)).encode(a_batch())


@pytest.mark.parametrize(
    ("decode", "words"),
    [
        (lambda mean: None, "must return a tensor, float32 [4], got None"),
        (lambda mean: mean[:2], "must return float32 [4], got float32 [2]"),
        (lambda mean: mean[None], "must return float32 [4], got float32 [1, 4]"),
        (lambda mean: mean.double(), "must return float32 [4], got float64 [4]"),
        (lambda mean: mean / 0, "returned numbers that are not finite, although the mean message is"),
        (lambda mean: mean.wrong, "raised AttributeError: 'Tensor' object has no attribute 'wrong'"),
    ],
)
def test_what_decode_returns_is_checked(decode: Callable[[Tensor], Any], words: str) -> None:
    coder = opened(Mine(decode=decode))
    coder.encode(a_batch())
    with pytest.raises(UserError, match=one_line(words, begins="stage Mine: decode()")):
        coder.decode(torch.ones(4))


def test_a_mean_that_is_not_finite_is_not_the_stages_fault() -> None:
    assert opened(Mine()).decode(torch.full((4,), math.nan)).isnan().all()


def test_what_expand_and_open_return_is_checked() -> None:
    coder = opened(Mine(expand=lambda messages: messages[0]))
    coder.encode(a_batch())
    assert coder.expand is not None
    with pytest.raises(UserError, match=one_line("stage Mine: expand() must return float32 [3, 4], got float32 [4]")):
        coder.expand(torch.ones(3, 4))
    with pytest.raises(UserError, match=one_line("noise_gain of the Coder must be a number of at least 0", "got 'x'")):
        opened(Mine(noise_gain="x"))
    with pytest.raises(UserError, match=one_line("stage Closed: open() must return a Coder, got a list")):
        opened(Closed())


class Closed(Mine):
    def open(self, opened: Round) -> Any:
        return []


def test_a_stage_inside_another_one_is_checked() -> None:
    """Error feedback opens and bounds the stages that it holds."""
    within = ErrorFeedback((Mine(lambda batch: None, stated=lambda before: None),), 4)
    with pytest.raises(UserError, match=one_line("stage Mine: encode() must return a Batch, got None")):
        opened(within).encode(a_batch())
    with pytest.raises(UserError, match=one_line("stage Mine: bound() must return a MessageBound, got None")):
        bound_after((within,), 4)


def test_errors_of_airfl_and_of_the_machine_stay_what_they_are() -> None:
    def fails(batch: Batch) -> Batch:
        raise MachineError("the disk is full")

    with pytest.raises(MachineError, match="the disk is full"):
        opened(Mine(fails)).encode(a_batch())


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("entries", [0, 4.0, True, None]),
        ("peak", [0.0, -1.0, math.nan, torch.tensor(1.0), None]),
        ("rms", [0.0, -1.0, math.nan, "1"]),
        ("sensitivity", [0.0, -1.0, math.nan]),
        ("noise_std", [-1.0, math.nan, math.inf]),
        ("values", [0, -2, 1.0]),
        ("value_bits", [0.0, -3.0, math.nan, math.inf]),
        ("side_bits", [-1, 1.5]),
        ("mask_bits", [-1, 1.5]),
        ("device_state", [None, ("shift",)]),
        ("seen", [0.0, -0.1, 1.1, math.nan]),
        ("attained", [None, 1]),
        ("local_multiplier", [-1.0, math.nan, "1"]),
    ],
)
def test_a_bound_states_what_a_message_can_have(field: str, wrong: list[Any]) -> None:
    for value in wrong:
        stage = Mine(stated=lambda before, value=value: replace(before, **{field: value}))
        said = f"stage Mine: bound() must state {field} as "
        with pytest.raises(UserError, match=one_line(f", got {value!r}", begins=said)):
            bound_after((Clip(1.0), stage), 4)


def test_bounds_of_numpy_and_without_a_bound_are_taken() -> None:
    stated = MessageBound(np.int64(4), np.float64(1.0), np.float32(0.5), math.inf, values=np.int64(2), seen=1 + 1e-12)  # type: ignore[arg-type]
    assert bound_after((Mine(stated=lambda before: stated),), 4) == replace(stated, seen=1.0)


def test_a_bound_that_is_none_or_raises_or_grows_by_no_number_is_told() -> None:
    with pytest.raises(UserError, match=one_line("stage Mine: bound() must return a MessageBound, got a float")):
        bound_after((Mine(stated=lambda before: 1.0),), 4)
    with pytest.raises(UserError, match=one_line("stage Mine: bound() raised AttributeError", "test_own_stages.py")):
        bound_after((Mine(stated=lambda before: before.norm),), 4)  # type: ignore[attr-defined]
    with pytest.raises(UserError, match=one_line("stage Mine: noise_adds_up must be True or False", "got 1")):
        bound_after((Mine(noise_adds_up=1),), 4)
    with pytest.raises(UserError, match=one_line("stage Mine: lipschitz must be a finite number", "got nan")):
        bound_after((Mine(lipschitz=math.nan),), 4)
