"""Who sends how strongly in a round: receive combining, power policy, peak limit, and what the sum is divided by."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from airfl.errors import UserError
from airfl.uplinks.disclosure import Disclosure, disclosed, everybody_named
from airfl.uplinks.uplink import Array, Terms
from channels.antennas import COMBINERS, Combiner, check_weights, combine
from channels.csi import Response
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
from channels.units import db_to_linear

Divisor = Literal["selected", "expected", "active"]
Peak = Literal["back-off", "clip"]
Alignment = Literal["sample", "population", "schedule"]
"""Whose reach settles beta: the selected devices', everybody's, or nobody's, as it is announced for the whole run."""


@dataclass(frozen=True)
class Control:
    """Power control of one round.

    Attributes:
        combiner: a, receive combining weights, complex [antennas, blocks, subcarriers].
        estimate: a^H hhat_i, the channel as estimated behind the combiner, [devices, blocks, subcarriers].
        plan: The power policy's answer.
        precoders: b_i, complex [devices, blocks, subcarriers].
        weights: Share of the entries on each coefficient, [blocks, subcarriers].
        decoder: What a received entry is multiplied by, [blocks, subcarriers].
        clip_energy: Peak limit of a resource element, [devices], if elements are cut to it; None elsewhere.
    """

    combiner: NDArray[np.complex128]
    estimate: Response
    plan: PowerPlan
    precoders: Response
    weights: Array
    decoder: Array
    clip_energy: Array | None


@dataclass(frozen=True)
class PowerControl:
    """The rules of power control, for all rounds.

    Attributes:
        policy: How power follows the channel, or a name of `POLICIES`.
        limit: What P_i bounds.
        noise_std: sigma_0, standard deviation of the receiver noise on a real entry.
        privacy_bound: The largest beta that privacy allows, inf where it does not matter.
        divide_by: Whether the sum is divided by the selected, the expected or the active devices.
        combining: How the antennas are combined, or a name of `COMBINERS`.
        strict: Whether to keep to the limit in every round, wherever the entries fall.
        peak_db: Largest energy of a resource element over its mean at the limit in dB, None for no peak limit.
        peak: How the peak limit is kept to.
        alignment: Whose reach settles beta, see `Alignment`.
        scheduled: beta of a schedule, within the privacy bound; inf without one.
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
    scheduled: float = float("inf")

    @cached_property
    def rule(self) -> Policy:
        """The policy itself."""
        return POLICIES.build(self.policy)

    @cached_property
    def receiver(self) -> Combiner:
        """The combiner itself."""
        return COMBINERS.build(self.combining)

    def sample_sets_beta(self, flat: bool) -> bool:
        """Whether beta, or what else is broadcast beside the sum, follows from who was selected. flat: whether all
        entries meet one coefficient."""
        if self.divide_by == "active" or self._lowers(flat):
            return True
        return self.alignment == "sample" and self.rule.target is None

    def one_by_one(self, antennas: int, flat: bool) -> bool:
        """Whether beta is the least of what the devices reach one by one, so that what it tells can be worked out."""
        alone = antennas == 1 or self.receiver.one_antenna
        together = self.divide_by == "active" or self._lowers(flat) or not self.rule.one_by_one
        shows = self.rule.least_power > 0 and not flat  # which coefficients nobody uses
        return alone and not together and not shows

    @property
    def settled(self) -> bool:
        """Whether beta, or a bound on it, is there whoever was selected: what is received is then decoded in every
        round, as whether anybody was heard would tell of the sample."""
        announced = self.alignment != "sample" or self.rule.target is not None
        return announced or bool(np.isfinite(self.privacy_bound))

    def _lowers(self, flat: bool) -> bool:
        """Whether a limit may lower beta by what the selected devices' entries could be."""
        return (self.strict and not flat) or (self.peak_db is not None and self.peak == "back-off")

    def disclosure(self, terms: Terms, poisson: bool) -> Disclosure:
        """What beta tells an observer who knows everybody's gains and limits of who was selected; poisson: the kind of
        sample. All who were selected are granted where nothing better is proven, or `terms` do not know everybody."""
        everyone = terms.population
        if everyone is None:
            return everybody_named(terms.ids)
        _, antennas, *coefficients = everyone.knowledge.estimate.response.shape
        if not self.one_by_one(antennas, flat=coefficients == [1, 1]):
            return everybody_named(terms.ids)
        return disclosed(terms.ids, self.rule.reaches(self._task(everyone)[0]), self.privacy_bound, poisson)

    def _announced(self, terms: Terms) -> float | None:
        """beta as it is announced before the selected devices' channels are looked at; None where it is not."""
        if self.alignment == "sample":
            return None
        if self.alignment == "schedule":
            return self.scheduled
        assert terms.population is not None
        reaches = self.rule.reaches(self._task(terms.population)[0])
        return float(np.min(reaches, where=reaches > 0, initial=np.inf))

    def _task(self, terms: Terms) -> tuple[PowerTask, NDArray[np.complex128], Response]:
        """What the policy is asked, the combiner, and the estimated channel behind it."""
        limits = round_energy_limits(terms.power_limits, terms.entries / terms.dimension, self.limit)
        response = terms.knowledge.estimate.response
        combiner = self._weights(response, np.sqrt(limits) / terms.rms_norms)
        known = combine(combiner, response)
        task = PowerTask(
            gains=np.abs(known).astype(np.float64),
            weights=shares_as(terms.frame.weights, known.shape[1:]),
            energy_limits=limits,
            rms_norms=terms.rms_norms,
            noise_energy=terms.entries * self.noise_std**2,
            privacy_bound=self.privacy_bound,
            mean_power=terms.knowledge.mean_power,
            inverse_power=terms.fades.inverse_power if terms.fades else None,
        )
        return task, combiner, known

    def _weights(self, response: Response, factors: Array) -> NDArray[np.complex128]:
        """The combiner's; UserError where one of the user's own breaks what it promises. It is not asked where there is
        nobody to hear."""
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

    def of_round(self, terms: Terms) -> Control:
        """Everything that is settled before an update is known."""
        task, combiner, known = self._task(terms)
        limits, weights = task.energy_limits, task.weights
        announced = self._announced(terms)
        plan = self._plan(replace(task, announced=announced))
        if self.alignment == "population" and announced is not None and np.isfinite(announced):
            plan = replace(plan, power_bound_binding=announced <= self.privacy_bound)
        if self.strict and plan.amplitudes.shape[1:] != (1, 1):
            # Wherever the entries fall, and not only on average over where they do.
            plan = back_off(plan, terms.peak_norms, limits)
        peaks = None
        if self.peak_db is not None:
            peaks = terms.element_power * db_to_linear(self.peak_db)
            if self.peak == "back-off":
                plan, peaks = back_off(plan, terms.peak_norms, peaks), None
        turned = known.conj() / np.maximum(np.abs(known), np.finfo(np.float32).tiny)
        return Control(
            combiner=combiner,
            estimate=known,
            plan=plan,
            precoders=np.asarray(plan.amplitudes * turned),
            weights=weights,
            decoder=self._decoder(plan, terms),
            clip_energy=peaks,
        )

    def _plan(self, task: PowerTask) -> PowerPlan:
        """The policy's; UserError where one of the user's own breaks what it promises."""
        plan = self.rule.plan(task)
        if not is_built_in(self.rule):
            try:
                check_plan(self.rule, task, plan)
            except ValueError as error:
                raise UserError(f"power.policy: {error}") from None
        return plan

    def _decoder(self, plan: PowerPlan, terms: Terms) -> Array:
        """1/(divisor beta); 0 for a coefficient that nobody sends on."""
        shape = np.broadcast_shapes(plan.coefficient.shape, plan.amplitudes.shape[1:])
        coefficient = np.broadcast_to(plan.coefficient, shape)
        if self.divide_by == "selected":
            divisor: NDArray[np.float64] = np.full(shape, terms.divisor)
        elif self.divide_by == "expected":
            assert terms.fades is not None
            divisor = np.full(shape, terms.divisor * terms.fades.exceedance(self.rule.least_power))
        else:
            divisor = np.broadcast_to((plan.amplitudes > 0).sum(axis=0), shape).astype(np.float64)
        # Where beta itself says that nobody sends, noise alone is left out. Otherwise, and where a random sample came
        # out empty, what is received is decoded like any other, so as not to tell who was selected.
        heard = (plan.amplitudes > 0).any(axis=0) if len(plan.amplitudes) and not self.settled else np.array(True)
        used = (divisor > 0) & heard
        return np.asarray(used / np.where(used, divisor, 1.0) / np.where(used, coefficient, 1.0))


def shares_as(weights: Array, shape: tuple[int, ...]) -> Array:
    """Shares of entries summed along the axes on which the channel does not change."""
    for axis, length in enumerate(shape):
        if length == 1:
            weights = weights.sum(axis=axis, keepdims=True)
    return weights
