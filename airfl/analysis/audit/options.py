"""The options of an audit, checked before torch is imported."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airfl.errors import UserError, unknown_name

if TYPE_CHECKING:
    from airfl.config import Settings
    from airfl.core.scenario import Scenario

ATTACKS = ("round", "run", "both")
AGAINST = ("absent", "opposite")
OTHERS = ("trained", "silent", "opposed")
FEWEST_TRIALS = 20
CANARIES = 100


@dataclass(frozen=True)
class Options:
    """The options of an audit.

    Attributes:
        attack: "round" (one round, many times), "run" (a whole run with many canaries) or "both".
        trials: Rounds, each run with and without the canary.
        canaries: Canaries in the whole run; None for 100, at most half of the devices and what fits.
        confidence: Of each lower bound.
        against: What a device sends without its canary: nothing ("absent") or the negated canary ("opposite").
        others: What the other devices send: their updates ("trained"), nothing ("silent"), or the negated canary
            ("opposed"), which is the worst case of replace-one.
    """

    attack: str = "both"
    trials: int = 2000
    canaries: int | None = None
    confidence: float = 0.95
    against: str = "absent"
    others: str = "trained"


def check_options(options: Options) -> None:
    """Check the options on their own. Raises UserError for a value that is not allowed."""
    for name, value, allowed in (
        ("--attack", options.attack, ATTACKS),
        ("--against", options.against, AGAINST),
        ("--others", options.others, OTHERS),
    ):
        if value not in allowed:
            raise UserError(unknown_name(name, value, allowed))
    if not 0 < options.confidence < 1:
        raise UserError(f"--confidence: must be between 0 and 1, got {options.confidence:g}")
    if options.trials < FEWEST_TRIALS:
        raise UserError(f"--trials: must be at least {FEWEST_TRIALS}, got {options.trials}")
    if options.canaries is not None and options.canaries < 1:
        raise UserError(f"--canaries: must be at least 1, got {options.canaries}")
    if options.others == "opposed" and (options.attack != "round" or options.against != "opposite"):
        raise UserError("--others: 'opposed' needs --attack round --against opposite; add both, or use 'silent'")


def check_audit(settings: Settings, options: Options) -> None:
    """Check that the settings can be audited with these options, without reading data or importing torch. Raises
    UserError if not."""
    import numpy as np

    from airfl.core.building import build_scenario
    from airfl.core.preflight import nominal_samples
    from airfl.learning.chosen_task import dimension_of

    check_options(options)
    check_scenario(
        build_scenario(
            settings,
            dimension_of(settings.task),
            np.ones(settings.run.devices),
            nominal_samples(settings.task, settings.run.devices),
        ),
        settings,
        options,
    )


def check_scenario(scenario: Scenario, settings: Settings, options: Options) -> None:
    """Check that the scheme and the size of the run allow this audit, and raise UserError if not. settings: of the
    scenario."""
    from airfl.core.accounting import build_ledger

    statement = build_ledger(scenario).statement
    if statement.level != "client":
        raise UserError(
            f"scheme.name: the audit needs a scheme with client-level privacy, but {settings.scheme.name!r} protects "
            "single records; use for instance pfels, wfl-p, dp-fedavg, fed-smp-randk or cpsgd"
        )
    if options.against == "opposite" and statement.adjacency != "replace_one":
        raise UserError(
            f"--against: 'opposite' needs an epsilon for replace_one, but selection.kind = {settings.selection.kind!r} "
            f"gives one for {statement.adjacency}; use 'absent'"
        )
    if options.others == "opposed" and settings.server.weights != "equal":
        raise UserError("--others: 'opposed' needs server.weights = 'equal'; set it, or use 'silent'")
    room = room_for_canaries(scenario)
    if options.canaries is not None and options.canaries > room:
        raise UserError(
            f"--canaries: must be at most {room}, one per device and per transmitted entry, got {options.canaries}; "
            "give fewer, or raise run.devices or scheme.ratio"
        )


def room_for_canaries(scenario: Scenario) -> int:
    """Return the largest number of canaries: one per device and per transmitted entry."""
    return min(scenario.run.devices, scenario.bound.entries, scenario.dimension)


def canaries_of(scenario: Scenario, options: Options) -> int:
    """Return the requested number of canaries, or else the smallest of 100, half of the devices, and what fits."""
    if options.canaries is not None:
        return options.canaries
    return max(1, min(CANARIES, scenario.run.devices // 2, room_for_canaries(scenario)))
