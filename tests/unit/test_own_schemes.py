"""User-defined schemes and server rules: their links, recipe and new model are checked, and errors are one line."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

import airfl
from airfl.config import Settings
from airfl.core.preflight import check_recipe
from airfl.errors import DivergedError, UserError
from airfl.runtime.store import Store
from airfl.schemes.links import uplink_of
from airfl.schemes.names import SCHEMES
from airfl.schemes.own import CheckedRule
from airfl.schemes.recipe import Problem, Recipe
from airfl.uplinks.stages import Clip
from channels.part import PartError
from tests import small_data
from tests.conftest import small_settings
from tests.refusals import one_line

WFL_P = SCHEMES["wfl-p"]


class Own(WFL_P):  # type: ignore[misc, valid-type]
    """WFL-P with another recipe."""

    name = "own"
    change: ClassVar[Callable[[Recipe], Any]] = lambda recipe: recipe

    def recipe(self, problem: Problem) -> Recipe:
        return type(self).change(super().recipe(problem))  # type: ignore[no-any-return]


class Forgot:
    """No server rule, and no stage."""


class Rule:
    """A server rule that returns this."""

    def __init__(self, how: Callable[[Tensor, Tensor], Any]) -> None:
        self.how = how

    def step(self, parameters: Tensor, mean_update: Tensor, round_index: int, store: Store) -> Any:
        return self.how(parameters, mean_update)


def settings_of(change: Callable[[Recipe], Any], monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setattr(Own, "change", staticmethod(change))
    return small_settings("scheme.name=wfl-p").resolved(scheme=Own())


@pytest.mark.parametrize(
    ("links", "words"),
    [
        ("analog", "got 'analog'; write ('analog',), with a comma"),
        (("radio",), "got ('radio',)"),
        ((), "got ()"),
        (("ideal", "ideal"), "got ('ideal', 'ideal')"),
        (None, "got None"),
        ((1,), "got (1,)"),
    ],
)
def test_links_are_some_of_the_known_ones(links: Any, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Own, "links", links)
    known = "must be a tuple of some of 'analog', 'digital', 'ideal', 'noncoherent', each once, "
    with pytest.raises(PartError, match=one_line(f"scheme 'own': links {known}{words}")):
        Own()
    with pytest.raises(airfl.UserError, match=one_line(words)):
        airfl.Experiment(scheme=Own, local=airfl.LocalSgd(steps=1, clip_norm=1.0), rounds=1)
    assert [finding.outcome for finding in airfl.check_part(Own)] == ["wrong"]


def test_no_link_is_taken_for_another() -> None:
    with pytest.raises(UserError, match=one_line("scheme.link: unknown value 'a' (allowed: analog, digital,")):
        uplink_of("a", small_settings())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda recipe: [recipe], "must return a Recipe, got a list"),
        (lambda recipe: None, "must return a Recipe, got None"),
        (lambda recipe: recipe.wrong, "raised AttributeError: 'Recipe' object has no attribute 'wrong' (test_own_sch"),
        (lambda recipe: replace(recipe, stages=Clip(1.0)), "must give stages as a tuple, such as (stage,), got a Clip"),
        (
            lambda recipe: replace(recipe, stages=(Clip,)),
            "a stage must be an object, got the class Clip; write Clip(...",
        ),
        (lambda recipe: replace(recipe, stages=(Forgot(),)), "a stage must have bound() and open(), got a Forgot"),
        (lambda recipe: replace(recipe, server=Forgot()), "server must have step(), got a Forgot"),
        (lambda recipe: replace(recipe, server=Rule), "server must be an object, got the class Rule"),
        (lambda recipe: replace(recipe, uplink="analog"), "uplink must have open(), got a str"),
    ],
)
def test_a_recipe_is_checked_before_a_run(
    change: Callable[[Recipe], Any], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_of(change, monkeypatch)
    with pytest.raises(UserError, match=one_line(words, begins="scheme 'own': recipe()")):
        check_recipe(settings)


def test_what_a_recipe_refuses_is_told_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(recipe: Recipe) -> Recipe:
        raise UserError("local.steps: needs one")

    with pytest.raises(UserError, match=r"\Alocal.steps: needs one\Z"):
        check_recipe(settings_of(refuse, monkeypatch))


def test_an_error_of_a_scheme_of_airfl_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its traceback is for a report of the bug."""
    monkeypatch.setattr(WFL_P, "recipe", lambda self, problem: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        check_recipe(small_settings("scheme.name=wfl-p"))


@pytest.mark.parametrize(
    ("how", "words"),
    [
        (lambda old, mean: None, "must return the new parameters, float32 [4], got None"),
        (lambda old, mean: (old + mean).double(), "must return the new parameters, float32 [4], got float64 [4]"),
        (lambda old, mean: old[:2], "must return the new parameters, float32 [4], got float32 [2]"),
        (lambda old, mean: old.clone().requires_grad_(), "without a gradient; call its detach()"),
        (lambda old, mean: old + mean.wrong, "raised AttributeError"),
    ],
)
def test_the_new_model_of_a_server_rule_is_checked(how: Callable[[Tensor, Tensor], Any], words: str) -> None:
    with pytest.raises(UserError, match=one_line(words, begins="server rule Rule: step()")) as raised:
        CheckedRule(Rule(how)).step(torch.zeros(4), torch.ones(4), 3, Store())
    assert not isinstance(raised.value, DivergedError)


def test_a_model_that_is_not_finite_is_the_rules_fault_if_the_mean_is() -> None:
    rule, nan = CheckedRule(Rule(lambda old, mean: old + mean * math.nan)), torch.full((4,), math.nan)
    said = one_line(
        "returned a model that is not finite in round 3, although the mean update is", begins="server rule Rule"
    )
    with pytest.raises(DivergedError, match=said):
        rule.step(torch.zeros(4), torch.ones(4), 3, Store())
    assert rule.step(torch.zeros(4), nan, 3, Store()).isnan().all()


def test_a_run_checks_its_server_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_of(lambda recipe: replace(recipe, server=Rule(lambda old, mean: None)), monkeypatch)
    with pytest.raises(UserError, match=one_line("server rule Rule: step() must return the new parameters")):
        small_data.run(settings)
