"""Builds the scenario of a run from its settings: scheme, radio and powers, checked for whether they fit together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from airfl.config import Settings
from airfl.config.part_keys import name_of
from airfl.config.task import OWN
from airfl.core.fitting import settings_for_scheme
from airfl.core.round_plan import plan_round
from airfl.core.scenario import Scenario
from airfl.core.scheduling import check_energy_budget
from airfl.errors import AlignmentError, UserError
from airfl.privacy.events import Composed, is_single, masked, repeated
from airfl.privacy.record import Batches
from airfl.privacy.statement import Statement
from airfl.runtime.streams import Streams
from airfl.schemes.binomial_release import BinomialRelease
from airfl.schemes.calibrated import is_calibrated
from airfl.schemes.claims import statement_of
from airfl.schemes.links import check_antennas_alike
from airfl.schemes.own import recipe_of
from airfl.schemes.recipe import Problem, Recipe
from airfl.schemes.release import ClientRelease, RecordRelease
from airfl.schemes.scheme import LinkKind
from airfl.selection import ChannelRule, Ids, ProportionalFair, sampling_of
from airfl.uplinks import AnalogUplink, IdealUplink, NoncoherentUplink, Uplink
from airfl.uplinks.radio import (
    build_radio,
    check_blind,
    check_law_of_selected,
    check_neighbours,
    check_radio,
    check_size,
    check_statistics_hold,
    check_surface,
    neighbours_of,
)
from airfl.uplinks.radio.visibility import combined_robustly
from airfl.uplinks.stages import ErrorFeedback, MessageBound, Stage, bound_after
from airfl.uplinks.stages.quantise import BinomialNoise
from channels.fading.registry import FADINGS
from channels.grid import OfdmaGrid
from channels.part import is_built_in

Array = NDArray[np.float64]

# Largest standard deviation of the noise on an entry that single precision can represent.
LARGEST_NOISE = 1e20
# Number of rounds over which the choices of power.alignment are compared.
ROUNDS_TO_COMPARE = 8
# Factor by which the next choice, which needs more CSI, must be better.
WORTH_IT = 1.1
# Limits of the formulas, which have no significant digits left below them.
SMALLEST_EPSILON, SMALLEST_DELTA = 1e-10, 1e-100


def build_scenario(settings: Settings, dimension: int, weights: Array, samples: int | Ids = 1) -> Scenario:
    """Build the scenario of these settings.

    Args:
        settings: All settings of the run.
        dimension: d, number of model parameters.
        weights: Weights of the devices' updates, [N].
        samples: m, samples of every device, or of each device, [N].
    """
    settings = settings_for_scheme(settings)
    if settings.power.alignment == "auto":
        return _best_aligned(settings, dimension, weights, samples)
    check_radio(settings.radio, settings.run.devices)
    _check_claims(settings)
    _check_rates(settings)
    if settings.delta < SMALLEST_DELTA:
        raise UserError(f"privacy.delta must be at least {SMALLEST_DELTA:g}, got {settings.delta:g}")
    if settings.privacy.epsilon < SMALLEST_EPSILON:
        raise UserError(f"privacy.epsilon must be at least {SMALLEST_EPSILON:g}, got {settings.privacy.epsilon:g}")
    streams = Streams(settings.run.seed)
    link = settings.scheme.carrier
    blind = link == "analog" and not settings.power.power_policy.coherent
    if blind:
        check_blind(settings.radio, settings.selection.rule)
    if link == "analog":
        check_law_of_selected(settings.radio, settings.selection.rule)
    check_surface(settings.radio, settings.selection.rule, link)
    check_neighbours(settings.radio, settings.selection.rule, link)
    population = {"devices": settings.run.devices, "rounds": settings.run.rounds}
    radio = build_radio(settings.radio, streams, **population, pilots_at_once=blind)
    sizes = np.asarray(samples, dtype=np.int64)
    least, *more = np.unique(sizes).tolist()
    problem = Problem(settings, dimension, link, float(weights.max()), least, radio.silent, more_samples=tuple(more))
    recipe = recipe_of(settings.scheme, problem)
    if isinstance(recipe.uplink, AnalogUplink) and recipe.uplink.control.rule.statistical:
        check_statistics_hold(settings.radio, recipe.uplink.control.privacy_bound)
    bound = bound_after(recipe.stages, dimension)
    _check_recipe(settings, recipe, bound, link)
    _check_offsets(settings, link)
    _check_hardware(settings, bound, link)
    frame = radio.frame(_frame_entries(recipe.uplink, bound.entries, radio.grid.used_subcarriers))
    rule = settings.selection.rule
    rows = settings.run.selected
    if isinstance(rule, ChannelRule) and rule.needs_csi:
        rows = rule.candidates or settings.run.devices
    if link == "analog" and settings.power.alignment == "population":
        rows = settings.run.devices
    elements = recipe.uplink.elements(bound.entries) if isinstance(recipe.uplink, NoncoherentUplink) else bound.entries
    radio.check_recording(frame)
    check_size(settings.radio, elements, rows, frame.blocks)
    # A device's power is shared by the entries of the message if power.spread = "message", else of the whole update.
    sharing = bound.entries if link == "analog" and settings.power.spread == "message" else dimension
    powered = _powered_elements(recipe.uplink, radio.grid, bound.entries, sharing)
    scenario = Scenario(
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
        elements_sharing_power=powered,
        power_limit=settings.power_limit,
        power_limits=radio.power_limits(dimension, sharing, powered),
        weights=weights,
        samples=least,
        statement=_statement(settings, recipe, bound, link, radio.silent, sizes),
        neighbours=neighbours_of(
            settings.radio,
            streams,
            radio,
            **population,
            pilots_at_once=blind,
            all_paths=settings.power.across_cells != "none",
        ),
    )
    check_energy_budget(scenario)
    return scenario


def _frame_entries(uplink: Uplink, entries: int, subcarriers: int) -> int:
    """Return the entries of the frame on which the channels of a round are drawn."""
    if isinstance(uplink, AnalogUplink):
        return entries
    if isinstance(uplink, NoncoherentUplink):
        return uplink.elements(entries)
    return max(entries, 2 * subcarriers)  # orthogonal devices may use any part of the band


def _powered_elements(uplink: Uplink, grid: OfdmaGrid, entries: int, sharing: int) -> int:
    """Return the resource elements among which a device divides its transmit power, if these are fewer than the used
    subcarriers.

    Args:
        uplink: The link.
        grid: Its resource elements.
        entries: Entries of a message.
        sharing: Entries whose elements share the power of a device that aggregates coherently.
    """
    if isinstance(uplink, IdealUplink):  # a message of any number of entries takes consecutive elements of all
        return grid.used_subcarriers
    if isinstance(uplink, NoncoherentUplink):  # several elements an entry
        return uplink.elements(entries)
    return grid.elements_for(sharing)


def _best_aligned(settings: Settings, dimension: int, weights: Array, samples: int | Ids) -> Scenario:
    """Build the scenario with power.alignment = "auto" replaced by the best choice.

    That is "sample", unless the privacy accounting assumes that the observer knows the selected devices. Then the noise
    that this requires may cost more than a beta that does not reveal them, so the choices are compared.
    """

    def aligned(alignment: str) -> Scenario:
        return build_scenario(settings.resolved(power={"alignment": alignment}), dimension, weights, samples)

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


def _signal_over_noise(scenario: Scenario) -> float:
    """Return the log signal-to-noise ratio of the decoded mean, averaged over some rounds.

    The ratio is the share of the selected devices whose messages are received over the noise on an entry. The rounds
    follow the run's last one, so that their samples reveal nothing about the samples of the run. As replayed gains and
    measured errors may end with the run, its own first rounds are used for them.
    """
    rounds = scenario.run.rounds
    replayed = range(min(rounds, ROUNDS_TO_COMPARE))
    logs = []
    recorded = scenario.radio.replay is not None or scenario.radio.measured is not None
    for index in replayed if recorded else range(rounds, rounds + ROUNDS_TO_COMPARE):
        report = plan_round(scenario, index, scenario.memory).link.link_budget()
        heard = float(report.devices.active.sum()) / scenario.run.selected
        noise = np.hypot(report.noise_std, scenario.bound.noise_std * report.device_noise_gain)
        logs.append(np.log(heard / noise) if heard and noise else -np.inf)
    return float(np.mean(logs))


def _statement(
    settings: Settings, recipe: Recipe, bound: MessageBound, link: LinkKind, silent: bool, sizes: Ids
) -> Statement:
    memory = bool(bound.device_state)
    adds_noise = recipe.adds_noise(bound)
    statement = statement_of(settings, recipe.release.level, link, recipe.calibrated, memory, adds_noise, silent)
    bounded = link == "analog" and bound.noise_std > 0 and _device_noise_is_bounded(settings)
    # What memories reveal about samples is also an upper bound: no neighbours are known that attain it.
    attained = recipe.release.attained and bound.attained and not bounded and not statement.remembered
    # Of several releases behind one mask, the least that neighbours pay is not known.
    attained &= bound.seen == 1 or is_single(recipe.release.event(1.0))
    # With a mask of its own for each device, the others' messages, which these neighbours leave alone, are not the same
    # for all who may be in a hidden sample of fixed size.
    own_masks = bound.seen < 1 and bound.values >= 0 and statement.hidden
    attained &= not (own_masks and statement.adjacency == "replace_one")
    statement = replace(statement, attained=statement.attained and attained)
    return _of_unequal(statement, recipe, sizes, bound.seen)


def _of_unequal(statement: Statement, recipe: Recipe, sizes: Ids, seen: float = 1.0) -> Statement:
    """Return the statement with what devices with different numbers of samples, [N], release about a record.

    Where a scheme tells it only of the device with the fewest, no device is known that attains its epsilon.
    """
    release, least = recipe.release, int(sizes.min())
    if not (isinstance(release, RecordRelease) and release.is_private) or (sizes == least).all():
        return statement
    if not release.by_samples:
        return replace(statement, attained=False)

    def behind_mask(batches: Batches) -> Composed:
        event = masked(Composed(batches), seen)
        return event if isinstance(event, Composed) else repeated(event, 1)

    released = {least: behind_mask(release.batches)}
    released |= {size: behind_mask(batches) for size, batches in release.by_samples.items()}
    return replace(
        statement,
        participation=released[least],
        worse=tuple(map(behind_mask, release.worse)),
        of_devices=tuple(released[size] for size in sizes.tolist()),
    )


def _check_rates(settings: Settings) -> None:
    """Raise UserError if devices are selected by rates that are not known."""
    rule = settings.selection.rule
    if isinstance(rule, ProportionalFair) or (isinstance(rule, ChannelRule) and not is_built_in(rule)):
        check_antennas_alike(settings.antennas, settings.channel, f"rates of selection.kind = {name_of(rule)!r}")


def _check_claims(settings: Settings) -> None:
    """Raise UserError for radio settings that are valid but for which the privacy figures do not hold."""
    channel, antennas = settings.channel, settings.antennas
    if settings.power.divide_by == "active" and sampling_of(settings.selection.rule) == "poisson":
        raise UserError(
            'power.divide_by: "active" tells how many a Poisson sample has, which no privacy figure allows for; take '
            '"selected" or "expected", or another selection.kind'
        )
    if combined_robustly(settings.radio):
        _check_robust(settings)
    if settings.privacy.csi_error != "quantile":
        return
    correlated = antennas.correlation != "independent" and not antennas.combiner.one_antenna
    if antennas.count > 1 and correlated:
        raise UserError(
            'privacy.csi_error: "quantile" is for antennas whose errors are independent (given: antennas.correlation = '
            f'{antennas.correlation!r}); choose "realised" or "unbounded", or antennas.combining = "first"'
        )
    if settings.topology.points > 1:
        raise UserError(
            'privacy.csi_error: "quantile" is for antennas of equal mean power (given: '
            f'{settings.topology.points} of topology.access_points); choose "realised" or "unbounded"'
        )
    if settings.surface.elements:
        raise UserError(
            'privacy.csi_error: "quantile" is for Gaussian channels, which those over a surface are not (given: '
            f'surface.elements = {settings.surface.elements}); choose "realised" or "unbounded"'
        )
    if not channel.fading_model.gaussian:
        gaussian = " or ".join(name for name in FADINGS.classes.values() if FADINGS[name].gaussian)
        raise UserError(
            f'privacy.csi_error: "quantile" is for Gaussian channels, channel.fading = {gaussian} (given: '
            f'{name_of(channel.fading)!r}); choose "realised" or "unbounded"'
        )


def _check_robust(settings: Settings) -> None:
    """Raise UserError for privacy settings that a robust combiner does not go with: it releases a function of the
    samples of all antennas, on which devices are received with more than beta."""
    name = name_of(settings.antennas.combining)
    if settings.privacy.csi_error != "realised":
        raise UserError(
            f"privacy.csi_error: antennas.combining = {name!r} is accounted with the true channel of all antennas, got "
            f'{settings.privacy.csi_error!r}; use "realised", or a combiner that sums the antennas'
        )
    if is_calibrated(settings.privacy):
        raise UserError(
            f'privacy.bound: "accountant" sets beta for antennas that are summed, got antennas.combining = {name!r}; '
            'use "paper", privacy.epsilon = inf, or a combiner that sums the antennas'
        )


def _check_records(settings: Settings, recipe: Recipe) -> None:
    """Refuse a guarantee for records that several devices hold, each of which would change several messages, and for
    records whose noise may be dropped."""
    partition, release = settings.task.partition, recipe.release
    shared = partition != OWN and settings.task.partition_rule.shares
    if shared and isinstance(release, RecordRelease) and release.is_private:
        raise UserError(
            f"task.partition: {name_of(partition)!r} gives a record to several devices, and scheme "
            f"{settings.scheme.name!r} protects a record of one device; choose another partition, a scheme that "
            "protects devices, or no noise"
        )
    if settings.run.non_finite == "drop" and isinstance(release, RecordRelease) and release.is_private:
        raise UserError(
            f"run.non_finite: in scheme {settings.scheme.name!r} the noise that hides a record is part of the update, "
            "and would be dropped with one that is not finite (given: 'drop'); take 'stop'"
        )


def _check_recipe(settings: Settings, recipe: Recipe, bound: MessageBound, link: LinkKind) -> None:
    _check_records(settings, recipe)
    if recipe.public_data and not settings.task.public_samples:
        raise UserError(
            f"task.public_samples: scheme {settings.scheme.name!r} uses public data; give how many "
            "training samples are public (given: 0)"
        )
    _check_noise(settings, recipe, bound, link)
    if settings.run.non_finite == "clip" and not recipe.local.clips_update:
        raise UserError(
            f"run.non_finite: scheme {settings.scheme.name!r} clips no update that 'clip' could bound; take 'stop' or "
            "'drop'"
        )
    backs_off = settings.power.peak_db is not None and settings.power.peak == "back-off"
    if link == "analog" and np.isinf(bound.peak) and (backs_off or settings.power.strict):
        raise UserError(
            f"power.{'peak' if backs_off else 'strict'}: a message with the device's own noise has no largest norm to "
            f"keep to (scheme {settings.scheme.name!r}); {'omit power.peak_db' if backs_off else 'take false'}"
        )
    if (link == "analog" and np.isinf(bound.rms)) or (link == "noncoherent" and np.isinf(bound.peak)):
        raise UserError(f"scheme.link: messages of scheme {settings.scheme.name!r} have no bound to set a power by")


def _check_noise(settings: Settings, recipe: Recipe, bound: MessageBound, link: LinkKind) -> None:
    """Raise UserError for noise of the devices that cannot be accounted, or cannot be added."""
    if recipe.noise_target is not None and bound.local_multiplier is not None:
        raise UserError(
            f"scheme {settings.scheme.name!r}: noise in front of a clip, a quantiser or a mask of each device's own, "
            "or inside error feedback, does not add up to noise_target; put GaussianNoise behind all of them"
        )
    if isinstance(recipe.release, ClientRelease) and _adds_binomial_noise(recipe.stages):
        raise UserError(
            f"scheme {settings.scheme.name!r}: ClientRelease accounts for Gaussian noise, and its stages add binomial "
            "noise; use BinomialRelease, as cpsgd does, or GaussianNoise"
        )
    if isinstance(recipe.release, BinomialRelease) and bound.local_multiplier is not None:
        raise UserError(
            f"scheme {settings.scheme.name!r}: BinomialRelease accounts for the sum of the noise, which a stage behind "
            "BinomialNoise, or error feedback around it, changes; put BinomialNoise last"
        )
    if recipe.stages_add_noise(bound) and sampling_of(settings.selection.rule) == "poisson":
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
    clips = {
        "power.peak_db": settings.power.peak_db is not None and settings.power.peak == "clip",
        "grid.clip_db": settings.grid.clip_db is not None,
    }
    for key, present in clips.items():
        if link == "analog" and bound.noise_std and present:
            raise UserError(
                f"{key}: no privacy figure is known for noise that devices add before a clip, as those of scheme "
                f"{settings.scheme.name!r} do; omit {key}, or take another scheme"
            )


def _adds_binomial_noise(stages: Iterable[Stage]) -> bool:
    return any(
        isinstance(stage, BinomialNoise) or (isinstance(stage, ErrorFeedback) and _adds_binomial_noise(stage.stages))
        for stage in stages
    )


def _check_offsets(settings: Settings, link: LinkKind) -> None:
    """Raise UserError for offsets made in a waveform if a link does not send one."""
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


def _check_hardware(settings: Settings, bound: MessageBound, link: LinkKind) -> None:
    """Raise UserError for hardware whose effect is not known on a link, or beside what else is set."""
    hardware, channel, policy = settings.hardware, settings.channel, settings.power.power_policy
    amplified, converted = hardware.amplifier != "none", hardware.adc_bits is not None
    impulsive = channel.interference_to_noise_db is not None and not channel.interference_model.gaussian
    carried = hardware.fronthaul_bits is not None
    for key, present in (("amplifier", amplified), ("adc_bits", converted), ("fronthaul_bits", carried)):
        if not present:
            continue
        where = f"hardware.{key}: its effect is not known"
        given = f"(given: {getattr(hardware, key)!r})"
        if link == "noncoherent":
            raise UserError(f"{where} on energies, which the noncoherent link adds up {given}; omit it")
        if key == "fronthaul_bits" and link != "analog":
            raise UserError(f"{where} on the {link} link {given}; omit it")
        if link == "analog" and not policy.coherent:
            name = name_of(settings.power.policy)
            raise UserError(f"{where} for power policy {name!r} {given}; omit it, or use another power.policy")
        if link == "analog" and combined_robustly(settings.radio):
            name = name_of(settings.antennas.combining)
            raise UserError(
                f"{where} on what antennas.combining = {name!r} makes of antennas {given}; omit it, or use a combiner "
                "that sums them"
            )
        # On a sum, distortion is one more disturbance of a known power beside the impulses. A converter's noise follows
        # an input that is Gaussian, and a rate under impulses is that of an SNR over Gaussian noise alone.
        if impulsive and (link != "analog" or key != "amplifier"):
            name = name_of(channel.interference)
            raise UserError(
                f'{where} on the {link} link beside channel.interference = {name!r} {given}; omit it, or use "gaussian"'
            )
    if link == "analog" and bound.noise_std and amplified:
        raise UserError(
            f"hardware.amplifier: no privacy figure is known for noise that devices add before an amplifier, as "
            f'those of scheme {settings.scheme.name!r} do; take hardware.amplifier = "none", or another scheme'
        )


def _device_noise_is_bounded(settings: Settings) -> bool:
    """Return whether less of the devices' own noise may be counted than arrives over an analog link.

    If the coefficients differ, the smallest counts. Against the server, often only a device's own noise counts.
    """
    # The noise of other devices is not counted at the antennas or under unknown phases.
    return settings.channel.fading_model.selective or settings.privacy.observer == "server"
