"""How an audit is made, and what it cannot be made of: told before torch is imported."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airfl.errors import UserError, unknown_name

if TYPE_CHECKING:
    from airfl.cell import Cell
    from airfl.config import Settings

ATTACKS = ("round", "run", "both")
AGAINST = ("absent", "opposite")
OTHERS = ("trained", "silent", "opposed")
FEWEST_TRIALS = 20
CANARIES = 100


@dataclass(frozen=True)
class Options:
    """How an audit is made.

    Attributes:
        attack: "round" (one round, many times), "run" (a whole run, with many canaries) or "both".
        trials: Rounds, each played with the canary and without.
        canaries: Of the whole run; None for 100, or as many as there is room for.
        confidence: Of each lower bound.
        against: What a device sends whose canary is not there: nothing ("absent") or the canary turned round
            ("opposite").
        others: What the other devices send: what they compute ("trained"), nothing ("silent"), or the canary turned
            round ("opposed"), which is the worst case of replace-one.
    """

    attack: str = "both"
    trials: int = 2000
    canaries: int | None = None
    confidence: float = 0.95
    against: str = "absent"
    others: str = "trained"


def check_options(options: Options) -> None:
    """UserError for a value that is not allowed."""
    for name, value, allowed in (
        ("--attack", options.attack, ATTACKS),
        ("--against", options.against, AGAINST),
        ("--others", options.others, OTHERS),
    ):
        if value not in allowed:
            raise UserError(unknown_name(name, value, allowed))
    if not 0 < options.confidence < 1:
        raise UserError(f"--confidence: {options.confidence:g} is not between 0 and 1; take 0.95")
    if options.trials < FEWEST_TRIALS:
        raise UserError(f"--trials: {options.trials} tell nothing; give {FEWEST_TRIALS} or more")
    if options.canaries is not None and options.canaries < 1:
        raise UserError(f"--canaries: {options.canaries} is none; give 1 or more")
    if options.others == "opposed" and (options.attack != "round" or options.against != "opposite"):
        raise UserError("--others: 'opposed' is for --attack round --against opposite; give both, or take 'silent'")


def check_audit(settings: Settings, options: Options) -> None:
    """UserError for settings that cannot be audited so; reads no data and needs no torch."""
    import numpy as np

    from airfl.building import build_cell
    from airfl.schemes import nominal_samples
    from airfl.tasks import dimension_of

    check_options(options)
    check_cell(
        build_cell(
            settings,
            dimension_of(settings.task),
            np.ones(settings.run.devices),
            nominal_samples(settings.task, settings.run.devices),
        ),
        settings,
        options,
    )


def check_cell(cell: Cell, settings: Settings, options: Options) -> None:
    """UserError where scheme or size do not allow this audit; settings: of the cell."""
    from airfl.cell import build_ledger

    statement = build_ledger(cell).statement
    if statement.level != "client":
        raise UserError(
            f"scheme.name: {settings.scheme.name!r} protects single records, the audit attacks one device's whole "
            "update; take a scheme at client level, such as pfels, wfl-p, dp-fedavg, fed-smp-randk, cpsgd"
        )
    if options.against == "opposite" and statement.adjacency != "replace_one":
        raise UserError(
            f"--against: 'opposite' replaces an update, and this run's epsilon is for {statement.adjacency} "
            f"(selection.kind = {settings.selection.kind!r}); take 'absent'"
        )
    if options.others == "opposed" and settings.server.weights != "equal":
        raise UserError("--others: 'opposed' is for equal weights; give server.weights = 'equal', or take 'silent'")
    room = room_for_canaries(cell)
    if options.canaries is not None and options.canaries > room:
        raise UserError(
            f"--canaries: there is room for {room}, one a device and one an entry that is sent (given: "
            f"{options.canaries}); give fewer, or raise run.devices or scheme.ratio"
        )


def room_for_canaries(cell: Cell) -> int:
    """One a device, and one an entry that is sent."""
    return min(cell.run.devices, cell.bound.entries, cell.dimension)


def canaries_of(cell: Cell, options: Options) -> int:
    """As many as asked for; else 100, half of the devices or the room there is, whichever is least."""
    if options.canaries is not None:
        return options.canaries
    return max(1, min(CANARIES, cell.run.devices // 2, room_for_canaries(cell)))
