"""The true channel of a round and the CSI about it, as the impairments are applied one after the other."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from channels.csi.offsets import Offsets
from channels.csi.state import ChannelEstimate, ChannelState, LineOfSight
from channels.draws import Array, Complex


@dataclass(frozen=True)
class ChannelInformation:
    """The channel of a round and the CSI about it. The first axis of all arrays is [devices].

    Attributes:
        state: The true channel on a device's own elements. For a useful power |h|^2, an additional power
            |h|^2 leakage/(1 - leakage) leaks to other elements.
        estimate: The channel estimate used by server and devices.
        mean_power: E|h_i|^2 over fading, [devices]; the mean over the antennas if it differs between them.
        pilot_noise_variance: Variance of the complex noise on an estimate from one pilot: N_0 over the energy of a
            pilot, [devices].
        slope: Regression coefficient of the true channel on the estimate, [devices], for Gaussian laws only. Given
            hhat, every coefficient of the true channel is slope u hhat + e, with e ~ CN(0, error_variance) independent
            of hhat and u. u is 1, or an unknown factor of modulus at most 1 if an exact estimate was rotated.
        error_variance: Variance of e, [devices]; 0 implies |h/hhat| <= |slope|. None if h given hhat has no such law.
        leakage: Share of a device's received power that leaks to other elements and symbols, [devices].
        in_phase: Part of `leakage` that arrives with the phase of the useful signal, and thus falls on the real part of
            an element as the useful signal does, [devices]; the rest falls on both parts equally.
        offsets: Timing and frequency offsets that cause leakage, and determine the subcarriers on which it falls.
        late: Share of the power before offsets that paths beyond the cyclic prefix leak if a device loads all
            subcarriers equally, [devices]. It is included in `leakage`: 1 - leakage = (1 - late)(1 - leakage by
            offsets). For unequal loads, use `state.leaked_power`.
        scattered: Power of the inter-carrier interference by phase noise over that of the useful signal, the same for
            all devices; it is included in `leakage`.
        line_of_sight: Line-of-sight component of the channel at the time of the estimate; None if there is none.
        spatial_roots: Square roots of the spatial correlation matrices of the diffuse part, complex [devices, antennas,
            antennas]; None if the antennas are independent.
        shrinkage: Factor by which the estimator has shrunk its observation of the channel, [devices], or [devices,
            antennas] if the mean power differs between antennas; None for 1.
        antenna_power: E|h_i|^2 over fading at each antenna, [devices, antennas]; None if it is equal at all of them.
        estimator_power: E|hhat_i|^2 over fading and pilots, before feedback quantises it, [devices], or [devices,
            antennas] if the mean power differs between antennas; None if the channel is not estimated, which gives
            E|h_i|^2.
    """

    state: ChannelState
    estimate: ChannelEstimate
    mean_power: Array
    pilot_noise_variance: Array
    slope: Array
    error_variance: Array | None
    leakage: Array
    in_phase: Array
    offsets: Offsets
    late: Array
    scattered: float = 0.0
    line_of_sight: LineOfSight | None = None
    spatial_roots: Complex | None = None
    shrinkage: Array | None = None
    antenna_power: Array | None = None
    estimator_power: Array | None = None

    @property
    def cross_power(self) -> Array:
        """E[hhat_i^* h_i] at the time of the estimate, as far as a receiver knows it from the mean powers, [devices].
        If it differs between antennas, it is the mean over them.

        What happens to the channel after the estimate is not known to the receiver and not included.
        """
        if self.shrinkage is None:
            return self.mean_power
        if self.antenna_power is not None:
            return np.asarray((self.antenna_power * self.shrinkage).mean(axis=1))
        return self.mean_power * self.shrinkage

    @property
    def power_of_coefficients(self) -> Array:
        """E|h_i|^2 over fading, to broadcast against a response, [devices, 1 or antennas, 1, 1]."""
        power = self.mean_power[:, None] if self.antenna_power is None else self.antenna_power
        return power[:, :, None, None]

    @property
    def finite(self) -> NDArray[np.bool_]:
        """Whether both the true channel and the estimate of a device are finite, [devices]."""
        true, estimated = (np.isfinite(one.response) for one in (self.state, self.estimate))
        return np.asarray(true.all(axis=(1, 2, 3)) & estimated.all(axis=(1, 2, 3)))

    def take(self, rows: NDArray[np.int64]) -> ChannelInformation:
        """Return the CSI of a subset of devices."""
        return ChannelInformation(
            state=self.state.take(rows),
            estimate=ChannelEstimate(self.estimate.response[rows]),
            mean_power=self.mean_power[rows],
            pilot_noise_variance=self.pilot_noise_variance[rows],
            slope=self.slope[rows],
            error_variance=None if self.error_variance is None else self.error_variance[rows],
            leakage=self.leakage[rows],
            in_phase=self.in_phase[rows],
            offsets=self.offsets.take(rows),
            late=self.late[rows],
            scattered=self.scattered,
            line_of_sight=self.line_of_sight.take(rows) if self.line_of_sight else None,
            spatial_roots=None if self.spatial_roots is None else self.spatial_roots[rows],
            shrinkage=None if self.shrinkage is None else self.shrinkage[rows],
            antenna_power=None if self.antenna_power is None else self.antenna_power[rows],
            estimator_power=None if self.estimator_power is None else self.estimator_power[rows],
        )


def perfect_csi(
    state: ChannelState,
    mean_power: NDArray[np.float64],
    pilot_noise_variance: NDArray[np.float64],
    line_of_sight: LineOfSight | None = None,
    spatial_roots: Complex | None = None,
    antenna_power: Array | None = None,
) -> ChannelInformation:
    """Return perfect CSI at both ends (PFELS, section 4.1)."""
    ones, zeros = np.ones(len(state.response)), np.zeros(len(state.response))
    estimate, late = ChannelEstimate(state.response), _late_share(state)
    return ChannelInformation(
        state=state,
        estimate=estimate,
        mean_power=mean_power,
        pilot_noise_variance=pilot_noise_variance,
        slope=ones,
        error_variance=zeros,
        leakage=late,
        in_phase=zeros,
        offsets=Offsets(late=zeros, carrier=zeros),
        late=late,
        line_of_sight=line_of_sight,
        spatial_roots=spatial_roots,
        antenna_power=antenna_power,
    )


def _late_share(state: ChannelState) -> Array:
    """Share of a device's received power that late paths leak with equal power on all elements, [devices]."""
    if state.leaked_power is None:
        return np.zeros(len(state.response))
    leaked_power = state.leaked_power.mean(axis=(1, 2), dtype=np.float64)
    total = leaked_power + (np.abs(state.response) ** 2).mean(axis=(1, 2, 3), dtype=np.float64)
    return np.asarray(leaked_power / np.where(total > 0, total, 1.0))


def apply_factor(
    csi: ChannelInformation, factor: Complex, leaked: Array | float = 0.0, *, in_phase: float = 0.0
) -> ChannelInformation:
    """Multiply the true channel by unknown factors of modulus at most 1.

    factor: broadcasts against the response; leaked: share of the power that leaks from the device's elements,
    [devices], with shares combined as 1 - (1 - a)(1 - b); in_phase: fraction of that with the phase of the useful
    signal. Afterwards h given hhat has no known law, unless hhat was exact.
    """
    response, newly = csi.state.response, (1.0 - csi.leakage) * leaked
    return replace(
        csi,
        state=replace(csi.state, response=response * factor.astype(response.dtype)),
        error_variance=if_exact(csi.error_variance),
        leakage=1.0 - (1.0 - csi.leakage) * (1.0 - leaked),
        in_phase=csi.in_phase + in_phase * newly if in_phase else csi.in_phase,
    )


def if_exact(error_variance: Array | None) -> Array | None:
    """Return the error variance if it is zero for every device, otherwise None."""
    return error_variance if error_variance is not None and not error_variance.any() else None


def match(state: ChannelState, estimate: ChannelEstimate) -> None:
    """Raise ValueError unless channel and estimate have matching shapes; blocks and subcarriers may be 1 in either."""
    true, estimated = state.response.shape, estimate.response.shape
    if len(true) != 4 or len(estimated) != 4:
        raise ValueError(
            "channel and estimate must both be [devices, antennas, blocks, subcarriers], got shapes "
            f"{true} and {estimated}"
        )
    for axis, a, b in zip(("devices", "antennas", "blocks", "subcarriers"), true, estimated, strict=True):
        if a != b and (axis in ("devices", "antennas") or 1 not in (a, b)):
            raise ValueError(f"channel and estimate must have the same number of {axis}, got {a} and {b}")
