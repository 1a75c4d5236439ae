"""A user-defined stage whose messages violate their stated bound ends a run with a one-line error."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
from torch import Tensor

from airfl.errors import UserError
from airfl.schemes.names import SCHEMES
from airfl.schemes.recipe import Problem, Recipe
from airfl.uplinks.stages import Batch, Coder, MessageBound, Round, held_to_bound
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
