"""Settings made into a cell: scheme, radio and powers fitted to one another, refused where they do not go together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from airfl.config import Settings
from airfl.config.part_keys import name_of
from airfl.core.fitting import fitted
from airfl.core.round_plan import open_round
from airfl.core.scenario import Cell
from airfl.core.scheduling import check_energy_budget
from airfl.errors import AlignmentError, UserError
from airfl.privacy.statement import Statement
from airfl.runtime.streams import Streams
from airfl.schemes.claims import statement_of
from airfl.schemes.recipe import Problem, Recipe
from airfl.schemes.release import ClientRelease
from airfl.schemes.scheme import LinkKind
from airfl.selection import ChannelRule, sampling_of
from airfl.uplinks.radio import build_radio, check_radio, check_size
from airfl.uplinks.stages import ErrorFeedback, MessageBound, bound_after
from channels.fading.registry import FADINGS

Array = NDArray[np.float64]

# Standard deviation on an entry that single precision carries.
LARGEST_NOISE = 1e20
# Rounds by which ways of settling beta are compared.
ROUNDS_TO_COMPARE = 8
# By how much the next way, which takes more knowledge of the channels, has to be better.
WORTH_IT = 1.1
# Of the formulas: below them they have no digits left.
SMALLEST_EPSILON, SMALLEST_DELTA = 1e-10, 1e-100


def build_cell(settings: Settings, dimension: int, weights: Array, samples: int = 1) -> Cell:
    """The cell of these settings for a model of d = `dimension` parameters; weights: of the devices' updates, [N];
    samples: m, of the device that has fewest."""
    settings = fitted(settings)
    if settings.power.alignment == "auto":
        return _best_aligned(settings, dimension, weights, samples)
    check_radio(settings.radio, settings.run.devices)
    _check_claims(settings)
    if settings.delta < SMALLEST_DELTA:
        raise UserError(f"privacy.delta: at least {SMALLEST_DELTA:g} is wanted, not {settings.delta:g}; give more")
    if settings.privacy.epsilon < SMALLEST_EPSILON:
        given = settings.privacy.epsilon
        raise UserError(f"privacy.epsilon: at least {SMALLEST_EPSILON:g} is wanted, not {given:g}; give more")
    streams = Streams(settings.run.seed)
    link = settings.scheme.carrier
    recipe = settings.scheme.recipe(Problem(settings, dimension, link, float(weights.max()), samples))
    bound = bound_after(recipe.stages, dimension)
    _check_recipe(settings, recipe, bound, link)
    _check_offsets(settings, link)
    radio = build_radio(settings.radio, streams, devices=settings.run.devices, rounds=settings.run.rounds)
    # Orthogonal devices sit anywhere in the band, however short a message is.
    frame = radio.frame(bound.entries if link == "analog" else max(bound.entries, 2 * radio.grid.used_subcarriers))
    rule = settings.selection.rule
    rows = settings.run.selected
    if isinstance(rule, ChannelRule) and rule.needs_csi:
        rows = rule.candidates or settings.run.devices
    if link == "analog" and settings.power.alignment == "population":
        rows = settings.run.devices
    check_size(settings.radio, bound.entries, rows, frame.blocks)
    # What shares a device's power: under power.spread = "message" the message, else the whole update.
    sharing = bound.entries if link == "analog" and settings.power.spread == "message" else dimension
    cell = Cell(
        run=settings.run,
        rule=rule,
        trace=settings.trace,
        streams=streams,
        radio=radio,
        dimension=dimension,
        link=link,
        recipe=recipe,
        bound=bound,
        frame=frame,
        entries_sharing_power=sharing,
        power_limit=settings.power_limit,
        power_limits=radio.power_limits(dimension, sharing),
        weights=weights,
        samples=samples,
        statement=_statement(settings, recipe, bound, link),
    )
    check_energy_budget(cell)
    return cell


def _best_aligned(settings: Settings, dimension: int, weights: Array, samples: int) -> Cell:
    """The cell with power.alignment = "auto" settled: by the selected devices, unless the account grants the observer
    who they were, so that the noise it asks for may be dearer than a beta that does not tell."""

    def aligned(alignment: str) -> Cell:
        return build_cell(settings.resolved(power={"alignment": alignment}), dimension, weights, samples)

    best = aligned("sample")
    if not (best.recipe.calibrated and best.statement.granted and best.statement.sampled and best.link == "analog"):
        return best
    for alignment in ("schedule", "population"):
        try:
            other = aligned(alignment)
        except AlignmentError:
            continue  # this scheme, policy or radio has no such beta
        if _signal_over_noise(other) > _signal_over_noise(best) + np.log(WORTH_IT):
            best = other
    return best


def _signal_over_noise(cell: Cell) -> float:
    """Of the decoded mean: the share of the selected devices that is heard over the noise on an entry, mean of the
    logarithm over rounds after the run's last one, whose samples tell nothing of those that are drawn in it. Replayed
    gains may end with the run: there its own first rounds are looked at."""
    rounds = cell.run.rounds
    replayed = range(min(rounds, ROUNDS_TO_COMPARE))
    logs = []
    for index in replayed if cell.radio.replay else range(rounds, rounds + ROUNDS_TO_COMPARE):
        report = open_round(cell, index, cell.memory).link.at_bound()
        heard = float(report.devices.active.sum()) / cell.run.selected
        noise = np.hypot(report.noise_std, cell.bound.noise_std * report.own_noise_gain)
        logs.append(np.log(heard / noise) if heard and noise else -np.inf)
    return float(np.mean(logs))


def _statement(settings: Settings, recipe: Recipe, bound: MessageBound, link: LinkKind) -> Statement:
    memory = any(isinstance(stage, ErrorFeedback) for stage in recipe.stages)
    # Noise that is not Gaussian is the devices' own, too.
    own_noise = bound.noise_std > 0 or not isinstance(recipe.release, ClientRelease)
    statement = statement_of(settings, recipe.release.level, link, recipe.calibrated, memory, own_noise)
    bounded = link == "analog" and bound.noise_std > 0 and _own_noise_is_bounded(settings)
    # What memories tell of samples is an upper bound, too: no neighbours are known that pay for all of it.
    attained = recipe.release.attained and not bounded and not statement.remembered
    return replace(statement, attained=statement.attained and attained)


def _check_claims(settings: Settings) -> None:
    """What a radio can be, and what is claimed of privacy over it cannot."""
    channel, antennas = settings.channel, settings.antennas
    if settings.power.divide_by == "active" and sampling_of(settings.selection.rule) == "poisson":
        raise UserError(
            'power.divide_by: "active" tells how many a Poisson sample has, which no privacy figure allows for; take '
            '"selected" or "expected", or another selection.kind'
        )
    if settings.privacy.csi_error != "quantile":
        return
    correlated = antennas.correlation != "independent" and not antennas.combiner.one_antenna
    if antennas.count > 1 and correlated:
        raise UserError(
            'privacy.csi_error: "quantile" is for antennas whose errors are independent (given: antennas.correlation = '
            f'{antennas.correlation!r}); choose "realised" or "unbounded", or antennas.combining = "first"'
        )
    if not channel.fading_model.gaussian:
        gaussian = " or ".join(name for name in FADINGS.classes.values() if FADINGS[name].gaussian)
        raise UserError(
            f'privacy.csi_error: "quantile" is for Gaussian channels, channel.fading = {gaussian} (given: '
            f'{name_of(channel.fading)!r}); choose "realised" or "unbounded"'
        )


def _check_recipe(settings: Settings, recipe: Recipe, bound: MessageBound, link: LinkKind) -> None:
    if recipe.public_data and not settings.task.public_samples:
        raise UserError(
            f"task.public_samples: scheme {settings.scheme.name!r} chooses coordinates on public data; give how many "
            "training samples are public (given: 0)"
        )
    if bound.noise_std and sampling_of(settings.selection.rule) == "poisson":
        raise UserError(
            f"selection.kind: devices of scheme {settings.scheme.name!r} bring the noise, so that its sum would tell "
            'how many a Poisson sample has; take "uniform"'
        )
    if bound.noise_std > LARGEST_NOISE:
        raise UserError(
            f"privacy.epsilon: the noise of scheme {settings.scheme.name!r} would have a standard deviation of "
            f"{bound.noise_std:.3g} on an entry, which single precision does not carry (at most {LARGEST_NOISE:g}); "
            "raise privacy.epsilon, or lower scheme.noise_multiplier or local.clip_norm"
        )
    if settings.run.non_finite == "clip" and not recipe.local.clips_update:
        raise UserError(
            f"run.non_finite: scheme {settings.scheme.name!r} clips no update that 'clip' could bound; take 'stop' or "
            "'drop'"
        )
    backs_off = settings.power.peak_db is not None and settings.power.peak == "back-off"
    if link == "analog" and np.isinf(bound.peak) and (backs_off or settings.power.strict):
        raise UserError(
            f"power.{'peak' if backs_off else 'strict'}: a message with the device's own noise has no largest norm to "
            f"keep to (scheme {settings.scheme.name!r}); take {'power.peak = clip' if backs_off else 'false'}"
        )
    if link == "analog" and np.isinf(bound.rms):
        raise UserError(f"scheme.link: messages of scheme {settings.scheme.name!r} have no bound to set a power by")


def _check_offsets(settings: Settings, link: LinkKind) -> None:
    """Offsets that are made in a waveform reach only what sends one."""
    csi = settings.csi.imperfections
    late_s, off_hz = csi.timing.timing_offset_s, csi.frequency.frequency_offset_hz
    if not settings.grid.waveform or not (late_s or off_hz):
        return
    without = f"{link} link" if link != "analog" else "downlink" if settings.grid.downlink else None
    if without:
        raise UserError(
            f"grid.waveform: offsets are made in the waveform, which the {without} does not send (given: "
            f"csi.timing_offset_s = {late_s:g}, csi.frequency_offset_hz = {off_hz:g}); "
            "take grid.waveform = false, or no offsets"
        )


def _own_noise_is_bounded(settings: Settings) -> bool:
    """Whether less of the devices' own noise may be counted than arrives over an analog link: over coefficients that
    differ the least counts, and against the server often only a device's own."""
    # At the antennas, or under phases that are not known, the others' noise is not counted.
    return settings.channel.fading_model.selective or settings.privacy.observer == "server"
