"""A round's channel as it is and as it is known, while one impairment after the other is put upon it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from channels.csi.offsets import Offsets
from channels.csi.state import ChannelEstimate, ChannelState, LineOfSight
from channels.draws import Array, Complex, Draw
from channels.frame import Frame

MOST_BITS = 16


@dataclass(frozen=True)
class CsiParameters:
    """What makes channel knowledge imperfect; the defaults leave it perfect.

    estimation: "perfect", "ls" or "mmse"; pilots: L, pilot symbols a device sends for each coefficient that is
    estimated; delay_s: from estimation to transmission; doppler_hz: f_D = v f_c/c; los_doppler: whether the phase that
    the line of sight takes on meanwhile is "known", so that it is made up for, or "unknown"; phase_bits, gain_bits: of
    the quantised feedback, 0 for none; gain_range_db: (lowest, highest) modulus the feedback can say, relative to the
    device's root mean square; phase_std_rad: of the residual phase; timing_offset_s: a device arrives up to that much
    after the receiver's window opens for the first arrival, uniform in [0, timing_offset_s], and as far as prefix_s
    late without harm; frequency_offset_hz: a device's carrier is off by plus or minus this at most, uniform;
    spacing_hz, prefix_s: of the OFDM symbols; the channel's own delays are none of the offsets'.
    """

    estimation: str = "perfect"
    pilots: int = 1
    delay_s: float = 0.0
    doppler_hz: float = 0.0
    los_doppler: str = "unknown"
    phase_bits: int = 0
    gain_bits: int = 0
    gain_range_db: tuple[float, float] = (-40.0, 10.0)
    phase_std_rad: float = 0.0
    timing_offset_s: float = 0.0
    frequency_offset_hz: float = 0.0
    spacing_hz: float = 15e3
    prefix_s: float = 0.0


@dataclass(frozen=True)
class Knowledge:
    """The channel of a round and what is known of it, [devices] on the first axis of everything.

    mean_power: E|h_i|^2 over fading; pilot_noise_variance: variance of the complex noise on an estimate from one pilot,
    N_0 over the energy of a pilot; both [devices].
    slope, error_variance: given hhat every coefficient of the true channel is slope u hhat + e, e ~ CN(0,
    error_variance) independent of hhat and of u, [devices], Gaussian laws only; error_variance is None where that is
    not so. u is 1, or, where an exact estimate was turned, an unknown factor of modulus at most 1: so error_variance 0
    says that |h/hhat| <= |slope|.
    leakage: share of a device's received power that falls on other elements and symbols, [devices]. `state` holds what
    is left on the device's own elements, so that beside a useful |h|^2 of `state` leaks |h|^2 leakage/(1 - leakage).
    in_phase: the part of `leakage` that arrives with the phase of what is useful, and so on the real part of an element
    as far as that does; the rest falls on both parts alike, [devices].
    offsets: where the leaked power comes from, and so on which subcarriers it falls.
    late: the share, of the power before offsets, that paths beyond the cyclic prefix leak if a device loads all
    subcarriers alike, [devices]; it is in `leakage`: 1 - leakage = (1 - late)(1 - what offsets leak). Where a device
    loads them unlike, `state.spilled` says what leaks.
    line_of_sight: what of the channel comes by it at the time of the estimate, None where nothing is known to.
    spatial_roots: square roots of the diffuse part's correlation between antennas, [devices, antennas, antennas], None
    where the antennas are independent.
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


def check_csi(parameters: CsiParameters) -> None:
    """ValueError, one line, for parameters that no run can have."""
    p = parameters
    if p.estimation not in ("perfect", "ls", "mmse"):
        raise ValueError(f"channel estimation {p.estimation!r} is not known: choose perfect, ls or mmse")
    if not 1 <= p.pilots < math.inf or p.pilots % 1:
        raise ValueError(f"{p.pilots} pilots per coefficient: give a whole number from 1 up")
    if p.los_doppler not in ("known", "unknown"):
        raise ValueError(f"a line of sight's Doppler shift is known or unknown, not {p.los_doppler!r}")
    for what, value in (("a CSI delay", p.delay_s), ("a cyclic prefix", p.prefix_s)):
        if not 0 <= value < math.inf:
            raise ValueError(f"{what} of {value} s: give a finite time from 0 up")
    if not 0 <= p.doppler_hz < math.inf:
        raise ValueError(f"a Doppler frequency of {p.doppler_hz} Hz: give a finite one from 0 up, speed/wavelength")
    for what, bits in (("phase", p.phase_bits), ("gain", p.gain_bits)):
        if not 0 <= bits <= MOST_BITS or bits % 1:
            raise ValueError(f"{bits} bits of {what} feedback: give a whole number from 0 (exact) to {MOST_BITS}")
    low, high = p.gain_range_db
    if not -math.inf < low < high < math.inf:
        raise ValueError(f"a gain range from {low} to {high} dB: give two finite values, the lower first")
    if not 0 <= p.phase_std_rad < math.inf:
        raise ValueError(f"a phase error of {p.phase_std_rad} rad: give a finite standard deviation from 0 up")
    if not 0 < p.spacing_hz < math.inf:
        raise ValueError(f"a subcarrier spacing of {p.spacing_hz} Hz: give a finite one above 0")
    if not 0 <= p.timing_offset_s < 1 / p.spacing_hz:
        raise ValueError(
            f"a timing offset of {p.timing_offset_s} s: give one from 0 up and below the useful symbol, "
            f"{1 / p.spacing_hz:.6g} s"
        )
    if not 0 <= p.frequency_offset_hz < p.spacing_hz / 2:
        raise ValueError(
            f"a frequency offset of {p.frequency_offset_hz} Hz: give one from 0 up and below half the spacing, "
            f"{p.spacing_hz / 2:.6g} Hz"
        )


Impair = Callable[[Knowledge, CsiParameters, Frame, Draw], Knowledge]


@dataclass(frozen=True)
class Impairment:
    """One effect. apply: (knowledge, parameters, frame, draw) -> knowledge; present: whether the parameters ask for it;
    source: where the model is from."""

    apply: Impair
    present: Callable[[CsiParameters], bool]
    source: str
