"""Opens the trace of a run and writes everything that is known before the first round."""

from __future__ import annotations

import datetime
import math
from pathlib import Path

from airfl.config import Settings, to_json
from airfl.core.accounting import paper_cost_mb
from airfl.core.checkpoint.fingerprint import digest_of, recorded_files
from airfl.core.numerics import numerics, software
from airfl.core.scenario import Scenario
from airfl.core.state import World
from airfl.learning.task import TaskIdentity
from airfl.selection import most_selected
from airfl.storage.fingerprint import fingerprint, own_parts
from airfl.storage.trace import TraceWriter
from airfl.storage.trace.schema import (
    NORMALISED,
    PER_DEVICE,
    PER_MOVING_DEVICE,
    PER_PLACED_DEVICE,
    PER_ROUND,
    PER_SLOT,
    RECORDED_CARRIER,
    RECORDED_FILES,
    in_units,
    metric_variable,
    signal_variables,
)
from airfl.version import __version__
from channels.topology import nearest_by_loss
from channels.units import linear_to_db


def _own_parts(settings: Settings) -> dict[str, str]:
    """Return the attribute that lists user-defined parts, if there are any."""
    own = own_parts(settings)
    parts = {key: {"part": repr(part), "fingerprint": fingerprint(part)} for key, part in own.items()}
    return {"own_parts": to_json(parts)} if parts else {}


def _recorded(settings: Settings, scenario: Scenario) -> dict[str, str | float]:
    """Return the attributes on recorded files, if the run depends on any: the SHA-256 of each, by which an export tells
    a file that has changed since, and the carrier of a recorded channel."""
    files = {file: digest_of(file) for file in recorded_files(settings)}
    found: dict[str, str | float] = {RECORDED_FILES: to_json(files)} if files else {}
    replay = scenario.radio.replay
    if replay is not None and not math.isnan(replay.carrier_hz):
        found[RECORDED_CARRIER] = replay.carrier_hz
    return found


def open_writer(path: Path, world: World, resolved: Settings, created_utc: str | None = None) -> TraceWriter:
    """Create the trace of a run and write everything that is known before the first round.

    Args:
        path: The file to create.
        world: The run's fixed objects.
        resolved: The resolved settings.
        created_utc: When the run began, in ISO format; the present time if None.
    """
    scenario = world.scenario
    run, entry = scenario.run, resolved.scheme
    dimensions = {"slot": slots_of(scenario), "population": run.devices}
    variables = in_units([*PER_ROUND, *PER_SLOT, *PER_DEVICE], "J" if scenario.radio.physical else NORMALISED)
    variables += [metric_variable(name) for name in world.task.metrics]
    placed = scenario.radio.drops
    if placed:
        variables += PER_PLACED_DEVICE
    if scenario.radio.moving is not None:
        variables += PER_MOVING_DEVICE
    if scenario.trace.any_signals and scenario.link == "analog":
        dimensions |= signal_dimensions(scenario)
        variables += signal_variables(resolved.grid.packing)
    ledger, statement = world.ledger, world.ledger.statement
    writer = TraceWriter(
        path,
        attributes={
            "airfl_version": __version__,
            "created_utc": created_utc or datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "scheme": entry.name,
            "seed": run.seed,
            "config": to_json(resolved.model_dump()),
            "paper": entry.paper,
            "link": scenario.link,
            "dimension": world.model.dimension,
            "device": world.device.type,
            "numerics": to_json(numerics(world.device, resolved.local.engine)),
            "versions": to_json(software()),
            "paper_cost_mb": paper_cost_mb(scenario),
            **_own_parts(resolved),
            **_recorded(resolved, scenario),
            **_of_task(world.task.own),
        },
        dimensions=dimensions,
        variables=variables,
        epsilon_attributes={"delta": statement.delta, "level": statement.level},
        rounds=run.rounds,
    )
    if world.task.loss is not None:
        for name, where in (("test", "the test set"), ("train", "training samples"), ("validation", "held-out data")):
            writer.annotate(f"{name}_loss", {"long_name": f"mean of the task's own loss on {where}"})
    own = {
        "adjacency": statement.adjacency,
        "sampling": statement.sampling,
        "observer": statement.observer,
        "csi_error": resolved.privacy.csi_error,
        "beta_tells": scenario.beta_tells,
    }
    writer.annotate("epsilon", {**own, "accountant": ledger.accountant})
    writer.annotate("epsilon_round", {**own, "accountant": "closed form"})
    for name in ("epsilon_at_least", "epsilon_round_at_least"):
        writer.annotate(name, {**own, "accountant": "PLD of a pair of neighbours"})
    writer.annotate(
        "epsilon_as_poisson",
        {"adjacency": "add_remove", "sampling": "poisson", "observer": statement.observer, "accountant": "PLD"},
    )
    replay = scenario.radio.replay
    if replay is not None and replay.interpolates(scenario.frame) and not math.isnan(replay.interpolation_error):
        error_db = float(linear_to_db(replay.interpolation_error))
        writer.annotate("channel_gain", {"interpolation_error_db": error_db})
    claim = scenario.recipe.claim
    writer.annotate("epsilon_paper", {"scope": claim.scope if claim else "none"})
    writer.write_population("device_samples", world.task.partition.sizes)
    writer.write_population("device_power_limit", scenario.power_limits * scenario.radio.energy_unit)
    if placed:
        distance_m, loss_db = nearest_by_loss(placed)
        writer.write_population("device_distance_m", distance_m)
        writer.write_population("device_path_loss_db", loss_db)
        if scenario.radio.moving is not None:
            comment = "at the start of the run; devices move, see topology.motion, distance_m and path_loss_db"
            for name in ("device_distance_m", "device_path_loss_db"):
                writer.annotate(name, {"comment": comment})
    return writer


def _of_task(own: TaskIdentity | None) -> dict[str, str]:
    """Return the attributes of a user-defined task: its name, its model as PyTorch prints it, and its fingerprints."""
    if own is None:
        return {}
    return {
        "task": own.name,
        "task_model": own.model,
        "task_parts": to_json(dict(own.parts)),
        "task_fingerprint": own.fingerprint,
        "task_initial": own.initial,
    }


def slots_of(scenario: Scenario) -> int:
    """Return the size of the dimension `slot`."""
    run = scenario.run
    return max(most_selected(scenario.rule, scenario.streams, run.rounds, run.devices, run.selected), 1)


def signal_dimensions(scenario: Scenario) -> dict[str, int]:
    """Return the sizes of the dimensions that only signals have."""
    blocks, subcarriers = scenario.radio.observed_shape(scenario.frame)
    return {
        "coordinate": scenario.bound.entries,
        "symbol": blocks,
        "subcarrier": subcarriers,
        "antenna": scenario.antennas,
    }
