"""User-defined schemes and server rules in a run: what they return is checked, and their errors become one line."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airfl.errors import DivergedError, UserError, comes_with_airfl, described, one_line_errors
from airfl.schemes.recipe import Problem, Recipe
from airfl.schemes.scheme import Scheme

if TYPE_CHECKING:
    from torch import Tensor

    from airfl.learning.server import ServerRule
    from airfl.runtime.store import Store

METHODS = {"uplink": ("open",), "server": ("step",), "local": ("build",), "release": ("event",)}
"""The methods that the objects in a recipe must have, by its field; those of its stages are `STAGE`."""
STAGE = ("bound", "open")


def recipe_of(scheme: Scheme, problem: Problem) -> Recipe:
    """Return the recipe of a scheme. Raises UserError if that of a user-defined one cannot be built or run; a server
    rule in it that is user-defined is checked in every round.

    Args:
        scheme: The scheme.
        problem: What the recipe is for.
    """
    if comes_with_airfl(scheme):
        recipe: Recipe = scheme.recipe(problem)
        return recipe
    what = f"scheme {scheme.name!r}: recipe()"
    with one_line_errors(what):
        built: object = scheme.recipe(problem)
    if not isinstance(built, Recipe):
        raise UserError(f"{what} must return a Recipe, got {described(built)}")
    if not isinstance(built.stages, tuple | list):
        raise UserError(f"{what} must give stages as a tuple, such as (stage,), got {described(built.stages)}")
    for stage in built.stages:
        _check_methods(what, "a stage", stage, STAGE)
    for field, methods in METHODS.items():
        _check_methods(what, field, getattr(built, field), methods)
    return built if comes_with_airfl(built.server) else replace(built, server=CheckedRule(built.server))


def _check_methods(what: str, field: str, given: object, methods: tuple[str, ...]) -> None:
    """Raise UserError for a class in a recipe, and for an object that lacks a method."""
    if isinstance(given, type):
        raise UserError(
            f"{what}: {field} must be an object, got the class {given.__name__}; write {given.__name__}(...)"
        )
    if not all(callable(getattr(given, method, None)) for method in methods):
        wanted = " and ".join(f"{method}()" for method in methods)
        raise UserError(f"{what}: {field} must have {wanted}, got {described(given)}")


@dataclass(frozen=True)
class CheckedRule:
    """A user-defined server rule whose new model is checked.

    Attributes:
        rule: The rule.
    """

    rule: ServerRule

    def step(self, parameters: Tensor, mean_update: Tensor, round_index: int, store: Store) -> Tensor:
        """Return the new model of the rule. Raises UserError if it is anything but a tensor like the old one, or
        DivergedError if it is not finite."""
        what = f"server rule {type(self.rule).__name__}: step()"
        with one_line_errors(what):
            given: object = self.rule.step(parameters, mean_update, round_index, store)
        stepped = _checked_model(what, given, parameters)
        if not stepped.isfinite().all() and mean_update.isfinite().all():
            raise DivergedError(
                f"{what} returned a model that is not finite in round {round_index}, although the mean update is; "
                "correct it, or lower local.learning_rate if training diverged"
            )
        return stepped


def _checked_model(what: str, given: object, like: Tensor) -> Tensor:
    """Return what a server rule has given. Raises UserError unless it is a tensor like the old model, without a
    gradient."""
    import torch

    wanted = f"the new parameters, {described(like)}"
    if not isinstance(given, torch.Tensor):
        raise UserError(f"{what} must return {wanted}, got {described(given)}")
    if given.shape != like.shape or given.dtype != like.dtype:
        raise UserError(f"{what} must return {wanted}, got {described(given)}")
    if given.device != like.device:
        raise UserError(f"{what} must return {wanted}, on {like.device}, got a tensor on {given.device}")
    if given.requires_grad:
        raise UserError(f"{what} must return {wanted}, without a gradient; call its detach()")
    return given
