"""Power control of a round: receive combining, power policy, peak limit, and the divisor of the sum."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from airfl.errors import UserError
from airfl.privacy.disclosure import Disclosure, beta_disclosure, whole_sample_named
from airfl.uplinks.uplink import Array, UplinkContext
from channels.antennas import COMBINERS, Combiner, check_weights, combine
from channels.csi import ChannelInformation, Response
from channels.part import is_built_in
from channels.power import (
    POLICIES,
    LimitReading,
    Policy,
    PowerPlan,
    PowerTask,
    back_off,
    check_plan,
    round_energy_limits,
)
from channels.power.across_cells import AcrossCells
from channels.units import db_to_linear

Divisor = Literal["selected", "expected", "active"]
Peak = Literal["back-off", "clip"]
Alignment = Literal["sample", "population", "schedule"]
"""What determines beta: the channels of the selected devices, the channels of all devices, or a value announced for the
whole run."""


@dataclass(frozen=True)
class Control:
    """Power control of one round.

    Attributes:
        combiner: a, receive combining weights, complex [antennas, blocks, subcarriers].
        estimate: a^H hhat_i, the estimated channel after combining, [devices, blocks, subcarriers].
        plan: The plan of the power policy.
        precoders: b_i, complex [devices, blocks, subcarriers].
        weights: Fraction of the entries on each coefficient, [blocks, subcarriers].
        decoder: Factor by which a received entry is multiplied, [blocks, subcarriers].
        clip_energy: Peak energy of a resource element, [devices], if elements are clipped to it; else None.
    """

    combiner: NDArray[np.complex128]
    estimate: Response
    plan: PowerPlan
    precoders: Response
    weights: Array
    decoder: Array
    clip_energy: Array | None

    def lowered(self, share: float) -> Control:
        """Return this power control with a share of the transmit power, 0 < share <= 1: all amplitudes and beta become
        sqrt(share) times as large, so that messages are aligned as before."""
        if share == 1.0:
            return self
        factor = float(np.sqrt(share))
        plan = PowerPlan(
            amplitudes=self.plan.amplitudes * factor,
            coefficient=self.plan.coefficient * factor,
            power_bound_binding=False,
            privacy_bound_binding=False,
        )
        return replace(self, plan=plan, precoders=self.precoders * factor, decoder=self.decoder / factor)


@dataclass(frozen=True)
class PowerControl:
    """Power control of a run.

    Attributes:
        policy: The power policy, or a name of `POLICIES`.
        limit: What P_i bounds.
        noise_std: sigma_0, standard deviation of the receiver noise on a real entry.
        privacy_bound: The largest beta that privacy allows, inf for no bound.
        divide_by: Whether the sum is divided by the number of selected, expected or active devices.
        combining: The receive combiner, or a name of `COMBINERS`.
        strict: Whether to keep to the limit in every round, regardless of the placement of the entries.
        peak_db: Largest energy of a resource element over its mean at the limit in dB, None for no peak limit.
        peak: How the peak limit is enforced.
        alignment: What determines beta, see `Alignment`.
        coefficient: beta of a schedule, within the privacy bound; inf without one.
        across_cells: What this cell and its neighbours minimise together, see `AcrossCells`.
    """

    policy: str | Policy
    limit: LimitReading
    noise_std: float
    privacy_bound: float = float("inf")
    divide_by: Divisor = "selected"
    combining: str | Combiner = "first"
    strict: bool = False
    peak_db: float | None = None
    peak: Peak = "back-off"
    alignment: Alignment = "sample"
    coefficient: float = float("inf")
    across_cells: AcrossCells = "none"

    @cached_property
    def rule(self) -> Policy:
        """The power policy as an object."""
        return POLICIES.build(self.policy)

    @cached_property
    def receiver(self) -> Combiner:
        """The receive combiner as an object."""
        return COMBINERS.build(self.combining)

    def sample_sets_beta(self, flat: bool) -> bool:
        """Whether beta, or other side information broadcast with the sum, depends on which devices were selected. flat:
        whether the channel has a single coefficient."""
        if self.divide_by == "active" or self._backs_off(flat) or self.across_cells != "none":
            return True
        return self.alignment == "sample" and self.rule.target is None

    def one_by_one(self, antennas: int, flat: bool) -> bool:
        """Whether beta is the minimum of values that each device reaches independently, so that the information it
        reveals can be computed."""
        single_antenna = antennas == 1 or self.receiver.one_antenna
        joint = self.divide_by == "active" or self._backs_off(flat) or not self.rule.one_by_one
        joint = joint or self.across_cells != "none"
        reveals_unused = self.rule.least_power > 0 and not flat  # which coefficients no device uses
        return single_antenna and not joint and not reveals_unused

    @property
    def beta_predetermined(self) -> bool:
        """Whether beta, or a bound on it, exists regardless of which devices were selected. The received signal is then
        decoded in every round, since skipping a round in which no device sends would reveal information about the
        sample."""
        announced = self.alignment != "sample" or self.rule.target is not None
        return announced or bool(np.isfinite(self.privacy_bound))

    def _backs_off(self, flat: bool) -> bool:
        """Whether a peak or strict limit may lower beta depending on the selected devices."""
        return (self.strict and not flat) or (self.peak_db is not None and self.peak == "back-off")

    def disclosure(self, context: UplinkContext, poisson: bool) -> Disclosure:
        """Return what beta reveals about the sample to an observer who knows the gains and limits of all devices.

        The observer is assumed to learn the whole sample if nothing better is proven, or if the context
        does not contain the population. poisson: whether the sample is a Poisson sample.
        """
        everyone = context.population
        if everyone is None:
            return whole_sample_named(context.ids)
        _, antennas, *coefficients = everyone.csi.estimate.response.shape
        if not self.one_by_one(antennas, flat=coefficients == [1, 1]):
            return whole_sample_named(context.ids)
        sampled = context.ids if context.sampled is None else context.sampled
        reaches = self.rule.reaches(self._task(everyone)[0])
        if everyone.sampled is not None and len(everyone.sampled) > len(everyone.ids):
            # A device without a channel reaches nothing, so it may or may not have been selected.
            reaches_of_all = np.zeros(len(everyone.sampled))
            reaches_of_all[everyone.ids] = reaches
            reaches = reaches_of_all
        return beta_disclosure(sampled, reaches, self.privacy_bound, poisson)

    def _announced(self, context: UplinkContext) -> float | None:
        """Return the beta that is announced independently of the selected devices' channels, None if there is none."""
        if self.alignment == "sample":
            return None
        if self.alignment == "schedule":
            return self.coefficient
        assert context.population is not None
        reaches = self.rule.reaches(self._task(context.population)[0])
        return float(np.min(reaches, where=reaches > 0, initial=np.inf))

    def _task(self, context: UplinkContext) -> tuple[PowerTask, NDArray[np.complex128], Response]:
        """Return the task for the policy, the combiner, and the estimated channel after combining."""
        limits = round_energy_limits(context.power_limits, context.entries / context.dimension, self.limit)
        csi, response = context.csi, context.csi.estimate.response
        factors = np.sqrt(limits) / context.rms_norms
        combiner = self._weights(response, factors)
        estimate = combine(combiner, response)
        task = PowerTask(
            gains=np.abs(estimate).astype(np.float64),
            weights=context.frame.weights_over(estimate.shape[1:]),
            energy_limits=limits,
            rms_norms=context.rms_norms,
            noise_energy=context.entries * self.noise_std**2,
            privacy_bound=self.privacy_bound,
            mean_power=_mean_power(csi, self.receiver, estimated=self.rule.knows_gains),
            inverse_power=context.fades.inverse_power if context.fades else None,
            amplitude_ratio=context.fades.amplitude_ratio if context.fades else None,
            survival=context.fades.survival if context.fades else None,
            most_power=context.fades.most_power if context.fades else np.inf,
            mean_gains=None if self.rule.coherent else self.receiver.mean_gains(response, factors, csi.cross_power),
        )
        return task, combiner, estimate

    def _weights(self, response: Response, factors: Array) -> NDArray[np.complex128]:
        """Return the combining weights. Raises UserError if a user-defined combiner violates its contract. Without
        devices, a user-defined combiner is not called."""
        if is_built_in(self.receiver):
            return self.receiver.weights(response, factors)
        if not len(response):
            return COMBINERS.build("first").weights(response, factors)
        weights = self.receiver.weights(response, factors)
        try:
            check_weights(self.receiver, response, weights)
        except ValueError as error:
            raise UserError(f"antennas.combining: {error}") from None
        return np.asarray(weights, dtype=np.complex128)

    def of_round(self, context: UplinkContext) -> Control:
        """Return the power control of a round, which does not depend on the updates."""
        task, combiner, estimate = self._task(context)
        limits, weights = task.energy_limits, task.weights
        announced = self._announced(context)
        plan = self._plan(replace(task, announced=announced))
        if self.alignment == "population" and announced is not None and np.isfinite(announced):
            plan = replace(plan, power_bound_binding=announced <= self.privacy_bound)
        if self.strict and plan.amplitudes.shape[1:] != (1, 1):
            # The limit then holds for every placement of the entries, not only on average over placements.
            plan = back_off(plan, context.peak_norms, limits)
        peaks = None
        if self.peak_db is not None:
            peaks = context.element_power * db_to_linear(self.peak_db)
            if self.peak == "back-off":
                plan, peaks = back_off(plan, context.peak_norms, peaks), None
        # Devices that do not know their channel send without a phase of their own.
        phases = (
            estimate.conj() / np.maximum(np.abs(estimate), np.finfo(np.float32).tiny) if self.rule.coherent else 1.0
        )
        return Control(
            combiner=combiner,
            estimate=estimate,
            plan=plan,
            precoders=np.asarray(plan.amplitudes * phases, dtype=np.complex128),
            weights=weights,
            decoder=self._decoder(plan, context),
            clip_energy=peaks,
        )

    def _plan(self, task: PowerTask) -> PowerPlan:
        """Return the policy's plan. Raises UserError if a user-defined policy violates its contract."""
        plan = self.rule.plan(task)
        if not is_built_in(self.rule):
            try:
                check_plan(self.rule, task, plan)
            except ValueError as error:
                raise UserError(f"power.policy: {error}") from None
        return plan

    def _decoder(self, plan: PowerPlan, context: UplinkContext) -> Array:
        """Return 1/(divisor beta); 0 for a coefficient on which no device sends."""
        shape = np.broadcast_shapes(plan.coefficient.shape, plan.amplitudes.shape[1:])
        coefficient = np.broadcast_to(plan.coefficient, shape)
        if self.divide_by == "selected":
            divisor: NDArray[np.float64] = np.full(shape, context.divisor)
        elif self.divide_by == "expected":
            assert context.fades is not None
            divisor = np.full(shape, context.divisor * context.fades.exceedance(self.rule.least_power))
        else:
            divisor = np.broadcast_to((plan.amplitudes > 0).sum(axis=0), shape).astype(np.float64)
        # A coefficient that holds only noise is skipped if beta itself reveals that no device sends. Otherwise, and for
        # an empty random sample, the signal is decoded as usual, so as not to reveal who was selected.
        used = divisor > 0
        if len(plan.amplitudes) and not self.beta_predetermined:
            used = used & (plan.amplitudes > 0).any(axis=0)
        return np.asarray(used / np.where(used, divisor, 1.0) / np.where(used, coefficient, 1.0))


def _mean_power(csi: ChannelInformation, receiver: Combiner, *, estimated: bool) -> Array:
    """Return the mean power over fading at the antenna that is used, or the mean over the antennas, [devices].

    estimated: whether of the estimates, whose moduli devices compare with it, instead of the channels.
    """
    power = csi.estimator_power if estimated else None
    if power is None:
        power = csi.mean_power if csi.antenna_power is None else csi.antenna_power
    if power.ndim == 1:
        return power
    return np.asarray(power[:, 0] if receiver.one_antenna else power.mean(axis=1))
