"""What a power policy is asked, what it answers, and what such a policy is."""

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
    """What is known before any update is: the channel as estimated, limits, bounds on the messages.

    Attributes:
        gains: |g_i|, modulus of the estimated effective channel, [devices, blocks, subcarriers]; an axis along which it
            does not change has length 1.
        weights: Share of the message's entries that each coefficient carries, [blocks, subcarriers] as in `gains`;
            their sum is 1, and 0 stands for a coefficient that nothing falls on.
        energy_limits: Energy limit of the round, in expectation over where entries fall, [devices].
        rms_norms: Bound sqrt(E||m_i||^2) of device i's message, weights included, [devices].
        noise_energy: m sigma_0^2, of the noise on all m observed entries.
        privacy_bound: Largest amplitude at which a unit of message may arrive, inf where there is none.
        mean_power: E|g_i|^2 over fading, [devices].
        inverse_power: E[mean_power/|g|^2; |g|^2 >= t mean_power] of the fading law as a function of t, for limits on
            the mean over fades; None where it is not known.
        announced: beta where it was settled before these devices were selected, so that whoever cannot reach it is
            silent; None where it follows from these devices.
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


@dataclass(frozen=True)
class PowerPlan:
    """How everybody sends in this round.

    Attributes:
        amplitudes: |b_i|, what a unit of message is multiplied by, 0 where a device is silent, [devices, blocks,
            subcarriers] with axes of length 1 as in `PowerTask.gains`; the phase is the conjugate's of the estimate.
        coefficient: beta, what the received sum is divided by, [blocks, subcarriers] (or length 1); every aligned
            contribution arrives with it.
        power_bound_binding: Whether a power limit set beta; both flags are true where the bounds are equal.
        privacy_bound_binding: Whether the privacy bound set beta.
    """

    amplitudes: Array
    coefficient: Array
    power_bound_binding: bool
    privacy_bound_binding: bool

    @property
    def active(self) -> NDArray[np.bool_]:
        """Who sends anything, [devices]."""
        return np.asarray((self.amplitudes > 0).any(axis=(1, 2)))

    def mean_square_amplitudes(self, weights: Array) -> Array:
        """Energy of a message of unit norm whose entries fall anywhere with equal chance, [devices]."""
        return np.asarray((self.amplitudes**2 * weights).sum(axis=(1, 2)))


class Policy(Part):
    """A power policy: how strongly each device sends in a round. Needs `plan`, and `reaches` where it is `one_by_one`.

    Attributes:
        name: What settings call it, lower case with hyphens.
        source: Where it is from.
        truncates: Whether a threshold or a target may keep devices or coefficients silent.
        per_coefficient: Whether beta differs between coefficients.
        aligned: Whether, without a threshold or a target, every selected device is heard in every round, each as
            strongly as any other, so that a round looks alike whoever was selected.
        one_by_one: Whether beta is the least positive of what the devices reach by themselves, within the privacy
            bound, so that what it tells of who was selected can be worked out.
        announces: Whether it heeds `PowerTask.announced`; only where it is `one_by_one`.

    Three parameters have a meaning wherever a policy has them: `threshold`, of |g|^2 over its mean, below which a
    coefficient is not used; `coefficient`, the beta aimed at whatever the channels are, None for the largest that every
    device reaches; `average_over`, "fading" where the limit holds on the mean over fades, and not in every round.
    """

    source: ClassVar[str] = ""
    truncates: ClassVar[bool] = False
    per_coefficient: ClassVar[bool] = False
    aligned: ClassVar[bool] = False
    one_by_one: ClassVar[bool] = False
    announces: ClassVar[bool] = False

    @abstractmethod
    def plan(self, task: PowerTask) -> PowerPlan:
        """How everybody sends; ValueError for a task that it cannot answer."""

    def reaches(self, task: PowerTask) -> Array:
        """The largest beta that each device allows by itself, [devices]; of policies that are `one_by_one`."""
        raise NotImplementedError(f"beta of {self.name!r} follows from the devices together")

    def check_fades(self, inverse_power: Callable[[float], float]) -> None:
        """Raise ValueError for a fading law that the policy cannot be run under; inverse_power: as in `PowerTask`."""

    @property
    def least_power(self) -> float:
        """Its `threshold`, 0 where it has none."""
        return float(getattr(self, "threshold", 0.0))

    @property
    def target(self) -> float | None:
        """Its `coefficient`, None where it has none."""
        aim = getattr(self, "coefficient", None)
        return None if aim is None else float(aim)

    @property
    def over_fading(self) -> bool:
        """Whether its limit holds on the mean over fades alone."""
        return getattr(self, "average_over", "round") == "fading"


def mse(task: PowerTask, plan: PowerPlan) -> float:
    """Expected squared error of the noisy sum, noise_energy included, for independent zero-mean messages at rms_norms.

    sum_i rms_i^2 sum_w w (|b_i| |g_i|/beta - 1)^2 + noise_energy sum_w w/beta^2, where entries fall anywhere by the
    weights; an estimate that is perfect is assumed.
    """
    missing = plan.amplitudes * task.gains / plan.coefficient - 1
    misalignment = (task.weights * missing**2).sum(axis=(1, 2)) @ task.rms_norms**2
    noise = task.noise_energy * (task.weights / plan.coefficient**2).sum()
    return float(misalignment + noise)
