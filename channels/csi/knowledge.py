"""A round's channel as it is and as it is known, while one impairment after the other is put upon it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from channels.csi.offsets import Offsets
from channels.csi.state import ChannelEstimate, ChannelState, LineOfSight
from channels.draws import Array, Complex


@dataclass(frozen=True)
class Knowledge:
    """The channel of a round and what is known of it, [devices] on the first axis of everything.

    Attributes:
        state: The true channel, with what is left on a device's own elements: beside a useful |h|^2 of it leaks |h|^2
            leakage/(1 - leakage).
        estimate: The channel as server and devices believe it to be.
        mean_power: E|h_i|^2 over fading, [devices].
        pilot_noise_variance: Variance of the complex noise on an estimate from one pilot, N_0 over the energy of a
            pilot, [devices].
        slope: Regression of the true channel on the estimate, [devices], for Gaussian laws only: given hhat every
            coefficient of the true channel is slope u hhat + e, with e ~ CN(0, error_variance) independent of hhat and
            of u. u is 1, or, where an exact estimate was turned, an unknown factor of modulus at most 1.
        error_variance: Variance of that e, [devices]; 0 says that |h/hhat| <= |slope|. None where h given hhat has no
            such law.
        leakage: Share of a device's received power that falls on other elements and symbols, [devices].
        in_phase: The part of `leakage` that arrives with the phase of what is useful, and so on the real part of an
            element as far as that does, [devices]; the rest falls on both parts alike.
        offsets: Where the leaked power comes from, and so on which subcarriers it falls.
        late: Share of the power before offsets that paths beyond the cyclic prefix leak if a device loads all
            subcarriers alike, [devices]. It is in `leakage`: 1 - leakage = (1 - late)(1 - what offsets leak). Where a
            device loads them unlike, `state.spilled` says what leaks.
        line_of_sight: What of the channel comes by the line of sight at the time of the estimate; None where nothing is
            known to.
        spatial_roots: Square roots of the diffuse part's correlation between antennas, complex [devices, antennas,
            antennas]; None where the antennas are independent.
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
    line_of_sight: LineOfSight | None = None
    spatial_roots: Complex | None = None

    @property
    def finite(self) -> NDArray[np.bool_]:
        """Whose channel is finite, as it is and as it is known, [devices]."""
        true, known = (np.isfinite(one.response) for one in (self.state, self.estimate))
        return np.asarray(true.all(axis=(1, 2, 3)) & known.all(axis=(1, 2, 3)))

    def take(self, rows: NDArray[np.int64]) -> Knowledge:
        """Of these devices alone."""
        spilled = self.state.spilled
        return Knowledge(
            state=ChannelState(self.state.response[rows], None if spilled is None else spilled[rows]),
            estimate=ChannelEstimate(self.estimate.response[rows]),
            mean_power=self.mean_power[rows],
            pilot_noise_variance=self.pilot_noise_variance[rows],
            slope=self.slope[rows],
            error_variance=None if self.error_variance is None else self.error_variance[rows],
            leakage=self.leakage[rows],
            in_phase=self.in_phase[rows],
            offsets=self.offsets.take(rows),
            late=self.late[rows],
            line_of_sight=self.line_of_sight.take(rows) if self.line_of_sight else None,
            spatial_roots=None if self.spatial_roots is None else self.spatial_roots[rows],
        )


def perfect_knowledge(
    state: ChannelState,
    mean_power: NDArray[np.float64],
    pilot_noise_variance: NDArray[np.float64],
    line_of_sight: LineOfSight | None = None,
    spatial_roots: Complex | None = None,
) -> Knowledge:
    """Perfect channel knowledge at both ends (PFELS, section 4.1)."""
    exact, nothing = np.ones(len(state.response)), np.zeros(len(state.response))
    estimate, late = ChannelEstimate(state.response), _late_share(state)
    none = Offsets(late=nothing, carrier=nothing)
    return Knowledge(
        state=state,
        estimate=estimate,
        mean_power=mean_power,
        pilot_noise_variance=pilot_noise_variance,
        slope=exact,
        error_variance=nothing,
        leakage=late,
        in_phase=nothing,
        offsets=none,
        late=late,
        line_of_sight=line_of_sight,
        spatial_roots=spatial_roots,
    )


def _late_share(state: ChannelState) -> Array:
    """Of a device's received power, what its late paths leak under equal power on all elements, [devices]."""
    if state.spilled is None:
        return np.zeros(len(state.response))
    spilled = state.spilled.mean(axis=(1, 2), dtype=np.float64)
    total = spilled + (np.abs(state.response) ** 2).mean(axis=(1, 2, 3), dtype=np.float64)
    return np.asarray(spilled / np.where(total > 0, total, 1.0))


def turn(knowledge: Knowledge, factor: Complex, leaked: Array | float = 0.0, *, in_phase: bool = False) -> Knowledge:
    """The true channel times factors of modulus at most 1 that nobody knows.

    factor: broadcast against the response; leaked: share of the power that leaves the device's elements, [devices];
    shares compose as 1 - (1 - a)(1 - b); in_phase: whether it does so with the phase of what stays. Nothing is said of
    h given hhat from here on, unless hhat was exact.
    """
    response, newly = knowledge.state.response, (1.0 - knowledge.leakage) * leaked
    return replace(
        knowledge,
        state=replace(knowledge.state, response=response * factor.astype(response.dtype)),
        error_variance=if_exact(knowledge.error_variance),
        leakage=1.0 - (1.0 - knowledge.leakage) * (1.0 - leaked),
        in_phase=knowledge.in_phase + newly if in_phase else knowledge.in_phase,
    )


def if_exact(error_variance: Array | None) -> Array | None:
    """The error variance where it is zero for every device, None otherwise."""
    return error_variance if error_variance is not None and not error_variance.any() else None


def match(state: ChannelState, estimate: ChannelEstimate) -> None:
    """ValueError unless truth and estimate speak of the same devices, antennas, blocks and subcarriers; blocks and
    subcarriers may have length 1 in either."""
    true, known = state.response.shape, estimate.response.shape
    if len(true) != 4 or len(known) != 4:
        raise ValueError(f"channel {true}, estimate {known}: give both as [devices, antennas, blocks, subcarriers]")
    for axis, a, b in zip(("devices", "antennas", "blocks", "subcarriers"), true, known, strict=True):
        if a != b and (axis in ("devices", "antennas") or 1 not in (a, b)):
            raise ValueError(f"the channel has {a} {axis}, its estimate {b}: give the estimate for the same {axis}")
