"""The interface of power policies: their inputs, their results, and the base class."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from channels.part import Part

Array = NDArray[np.float64]


@dataclass(frozen=True)
class PowerTask:
    """Inputs of a power policy, known before any update: the estimated channel, limits, and bounds on the messages.

    Attributes:
        gains: |g_i|, modulus of the estimated effective channel, [devices, blocks, subcarriers], with length 1 along
            constant axes.
        weights: Share of the message's entries on each coefficient, [blocks, subcarriers] as in `gains`, with sum 1; 0
            for a coefficient that carries no entry.
        energy_limits: Energy limit of the round, in expectation over the positions of the entries, [devices].
        rms_norms: Bound on sqrt(E||m_i||^2) of device i's message, including aggregation weights, [devices].
        noise_energy: m sigma_0^2, energy of the noise on all m observed entries.
        privacy_bound: Largest amplitude with which a message of unit scale may arrive, inf for none.
        mean_power: E|g_i|^2 over fading, [devices], of the estimates that `gains` has; of the channels for policies
            that do not know gains. The laws below are relative to it.
        inverse_power: E[mean_power/|g|^2; |g|^2 >= t mean_power] of the fading law as a function of t, for limits on
            the average over fading; None if unknown.
        announced: beta, if it was fixed before these devices were selected, so that devices that cannot reach it are
            silent; None if it follows from these devices.
        mean_gains: Mean over fading of the effective channel of a device that does not correct its phase, [devices,
            blocks, subcarriers], see `Combiner.mean_gains`; None where the combiner has none, and for policies that
            correct it.
        amplitude_ratio: E|g|/sqrt(E|g|^2) of the fading law, the same for all devices; None if unknown.
        survival: P(|g|^2 >= t mean_power) of the fading law as a function of t, an array of any shape; None if unknown.
        most_power: Largest |g|^2/mean_power of the fading law, inf if there is none or it is unknown.
    """

    gains: Array
    weights: Array
    energy_limits: Array
    rms_norms: Array
    noise_energy: float
    privacy_bound: float
    mean_power: Array
    inverse_power: Callable[[float], float] | None = None
    announced: float | None = None
    mean_gains: Array | None = None
    amplitude_ratio: float | None = None
    survival: Callable[[Array], Array] | None = None
    most_power: float = np.inf


@dataclass(frozen=True)
class PowerPlan:
    """Transmit amplitudes and beta of a round.

    Attributes:
        amplitudes: |b_i|, factor of the message, 0 where a device is silent, [devices, blocks, subcarriers] with axes
            of length 1 as in `PowerTask.gains`; the phase is that of the conjugate of the estimate, 0 if the policy is
            not `coherent`.
        coefficient: beta, by which the received sum is divided, [blocks, subcarriers] (or length 1); aligned
            contributions arrive with this amplitude.
        power_bound_binding: Whether a power limit determines beta; both flags are true if the bounds are equal.
        privacy_bound_binding: Whether the privacy bound determines beta.
    """

    amplitudes: Array
    coefficient: Array
    power_bound_binding: bool
    privacy_bound_binding: bool

    @property
    def active(self) -> NDArray[np.bool_]:
        """Which devices transmit, [devices]."""
        return np.asarray((self.amplitudes > 0).any(axis=(1, 2)))

    def mean_square_amplitudes(self, weights: Array) -> Array:
        """Return the energy of a message of unit norm with uniformly distributed positions of entries, [devices]."""
        return np.asarray((self.amplitudes**2 * weights).sum(axis=(1, 2)))


class Policy(Part):
    """Base class of power policies, which determine the transmit amplitude of each device in a round.

    Subclasses implement `plan`, and `reaches` if they are `one_by_one`.

    Attributes:
        name: Name in settings, lower case with hyphens.
        source: Source of the policy.
        truncates: Whether a threshold or a target can keep devices or coefficients silent.
        per_coefficient: Whether beta differs between coefficients.
        aligned: Whether, without a threshold or a target, every selected device is received in every round with the
            same amplitude, so that the received signal does not depend on which devices were selected.
        one_by_one: Whether beta is the smallest positive reach of the individual devices, within the privacy bound, so
            that the information in beta about the selection can be computed.
        announces: Whether it uses `PowerTask.announced`; only if it is `one_by_one`.
        coherent: Whether devices know their channels and correct the phase. If not, amplitudes must not depend on the
            estimate, the receiver estimates only the sum of the channels, and it needs a combiner with `mean_gains`.
        within_beta: Whether no message arrives with more than beta. If some may, what is received with which strength
            depends on who was selected, and bounds on privacy follow from the plan instead of beta.
        statistical: Whether amplitudes or beta follow from the law of fading, so that it holds for one antenna and for
            devices that are not selected by their channels.
        knows_gains: Whether amplitudes may depend on the moduli of the estimated channels. If not, only the phase is
            used, and what arrives is bounded only if the law has a largest gain.

    Three parameters have a fixed meaning if a policy has them. `threshold` is the bound on |g|^2 relative to its mean
    below which a coefficient is not used. `coefficient` is the target beta for any channel, None for the largest that
    every device reaches. `average_over` is "fading" if the limit holds on average over fading instead of in every
    round.
    """

    source: ClassVar[str] = ""
    truncates: ClassVar[bool] = False
    per_coefficient: ClassVar[bool] = False
    aligned: ClassVar[bool] = False
    one_by_one: ClassVar[bool] = False
    announces: ClassVar[bool] = False
    coherent: ClassVar[bool] = True
    within_beta: ClassVar[bool] = True
    statistical: ClassVar[bool] = False
    knows_gains: ClassVar[bool] = True

    @abstractmethod
    def plan(self, task: PowerTask) -> PowerPlan:
        """Return the transmit amplitudes and beta; raise ValueError for an unsupported task."""

    def reaches(self, task: PowerTask) -> Array:
        """Return the largest beta that each device allows by itself, [devices], if the policy is `one_by_one`."""
        raise NotImplementedError(f"beta of {self.name!r} depends on all devices jointly")

    def check_fades(self, inverse_power: Callable[[float], float]) -> None:
        """Raise ValueError for a fading law that the policy does not support; inverse_power: as in `PowerTask`."""

    @property
    def needs_law(self) -> bool:
        """Whether the fading law has to be known: for policies that are `statistical`, unless they need only powers."""
        return self.statistical

    @property
    def least_power(self) -> float:
        """The `threshold` of the policy, 0 if it has none."""
        return float(getattr(self, "threshold", 0.0))

    @property
    def target(self) -> float | None:
        """The `coefficient` of the policy, None if it has none."""
        aim = getattr(self, "coefficient", None)
        return None if aim is None else float(aim)

    @property
    def over_fading(self) -> bool:
        """Whether the limit holds only on average over fading."""
        return getattr(self, "average_over", "round") == "fading"


def mse(task: PowerTask, plan: PowerPlan) -> float:
    """Return the expected squared error of the noisy sum, for independent zero-mean messages at rms_norms.

    The error is sum_i rms_i^2 sum_w w (|b_i| |g_i|/beta - 1)^2 + noise_energy sum_w w/beta^2, with positions of entries
    distributed by the weights. Perfect CSI is assumed.
    """
    deviation = plan.amplitudes * task.gains / plan.coefficient - 1
    misalignment = (task.weights * deviation**2).sum(axis=(1, 2)) @ task.rms_norms**2
    noise = task.noise_energy * (task.weights / plan.coefficient**2).sum()
    return float(misalignment + noise)
