"""Who sends how strongly in a round: receive combining, power policy, peak limit, and what the sum is divided by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from airfl.uplinks.uplink import Array, Terms
from channels.antennas import COMBINERS, combine
from channels.csi import Response
from channels.power import (
    POLICIES,
    LimitReading,
    PolicyParameters,
    PowerPlan,
    PowerTask,
    back_off,
    round_energy_limits,
)
from channels.units import db_to_linear

Divisor = Literal["selected", "expected", "active"]
Peak = Literal["back-off", "clip"]


@dataclass(frozen=True)
class Control:
    """Of one round. combiner: a, [antennas, blocks, subcarriers]; estimate: a^H hhat_i; precoders: b_i; both [devices,
    blocks, subcarriers]; weights: share of entries on each coefficient; decoder: what a received entry is multiplied
    by, both [blocks, subcarriers]; clip_energy: peak limits [devices] if entries are cut to them."""

    combiner: NDArray[np.complex128]
    estimate: Response
    plan: PowerPlan
    precoders: Response
    weights: Array
    decoder: Array
    clip_energy: Array | None


@dataclass(frozen=True)
class PowerControl:
    """The rules. policy: a name of `POLICIES`, parameters: its own; limit: what P_i bounds; noise_std: sigma_0;
    privacy_bound: the largest beta that privacy allows, inf where it does not matter; divide_by: selected, expected or
    active devices; combining: a name of `COMBINERS`; strict: keep to the limit in every round; peak_db: largest energy
    of an entry over P_i/d, None for no peak limit; peak: how it is kept to."""

    policy: str
    parameters: PolicyParameters
    limit: LimitReading
    noise_std: float
    privacy_bound: float = float("inf")
    divide_by: Divisor = "selected"
    combining: str = "first"
    strict: bool = False
    peak_db: float | None = None
    peak: Peak = "back-off"

    def of_round(self, terms: Terms) -> Control:
        """Everything that is settled before an update is known."""
        limits = round_energy_limits(terms.power_limits, terms.entries / terms.dimension, self.limit)
        response = terms.knowledge.estimate.response
        combiner = COMBINERS[self.combining].weights(response, np.sqrt(limits) / terms.rms_norms)
        known = combine(combiner, response)
        weights = shares_as(terms.frame.weights, known.shape[1:])
        task = PowerTask(
            gains=np.abs(known).astype(np.float64),
            weights=weights,
            energy_limits=limits,
            rms_norms=terms.rms_norms,
            noise_energy=terms.entries * self.noise_std**2,
            privacy_bound=self.privacy_bound,
            mean_power=terms.knowledge.mean_power,
            inverse_power=terms.fades.inverse_power if terms.fades else None,
        )
        plan = POLICIES[self.policy].policy(task, self.parameters)
        if self.strict and plan.amplitudes.shape[1:] != (1, 1):
            # Wherever the entries fall, and not only on average over where they do.
            plan = back_off(plan, terms.peak_norms, limits)
        peaks = None
        if self.peak_db is not None:
            peaks = terms.power_limits / terms.dimension * db_to_linear(self.peak_db)
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

    def _decoder(self, plan: PowerPlan, terms: Terms) -> Array:
        """1/(divisor beta); 0 for a coefficient that nobody sends on."""
        shape = np.broadcast_shapes(plan.coefficient.shape, plan.amplitudes.shape[1:])
        coefficient = np.broadcast_to(plan.coefficient, shape)
        if self.divide_by == "selected":
            divisor: NDArray[np.float64] = np.full(shape, terms.divisor)
        elif self.divide_by == "expected":
            assert terms.fades is not None
            divisor = np.full(shape, terms.divisor * terms.fades.exceedance(self.parameters.threshold))
        else:
            divisor = np.broadcast_to((plan.amplitudes > 0).sum(axis=0), shape).astype(np.float64)
        # Nobody sends there, which follows from public channels: noise alone tells nothing and is left out. A round
        # whose random sample came out empty is decoded like any other, so as not to tell that it was.
        heard = (plan.amplitudes > 0).any(axis=0) if len(plan.amplitudes) else np.array(True)
        used = (divisor > 0) & heard
        return np.asarray(used / np.where(used, divisor, 1.0) / np.where(used, coefficient, 1.0))


def shares_as(weights: Array, shape: tuple[int, ...]) -> Array:
    """Shares of entries summed along the axes on which the channel does not change."""
    for axis, length in enumerate(shape):
        if length == 1:
            weights = weights.sum(axis=axis, keepdims=True)
    return weights
