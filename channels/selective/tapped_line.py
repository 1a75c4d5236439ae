"""The light frequency-selective model: a line of i.i.d. Rayleigh taps, equally spaced, that move by Clarke's spectrum.

Mean power of a tap 1/L, so E|H|^2 = 1. Taps one spacing apart make a response periodic in frequency, with period
1/spacing = sqrt((L^2 - 1)/12)/delay spread: `least_taps` says how many taps push the period beyond a bandwidth.
"""

from __future__ import annotations

import math

import numpy as np

from channels.draws import Array, Complex, circular_gaussian, correlate
from channels.fading.kinds import SelectiveFading
from channels.part import parameter
from channels.selective.late import late_paths, take_late
from channels.selective.parameters import delay_spread
from channels.selective.request import SelectiveRequest, SelectiveResponse

# Paths of a moving tap. Their number does not touch the mean power, the distribution or J0, which hold exactly over
# draws; over time, the power of one drawn tap stays within some 1/sqrt(paths) of 1/L.
PATHS = 32


class TappedLine(SelectiveFading):
    """A line of i.i.d. Rayleigh taps of equal power, equally spaced."""

    name = "tapped-line"
    source = "uncorrelated scattering (Bello 1963) on equal taps, Clarke's Doppler spectrum (1968)"
    gaussian = True
    variations = ("independent", "constant", "jakes")

    delay_spread_s: float = delay_spread()
    taps: int = parameter(
        default=0, ge=0, key="taps", description="of fading = tapped-line; 0 = enough for the bandwidth"
    )

    @property
    def spread_s(self) -> float:
        """As given."""
        return self.delay_spread_s

    def taps_over(self, bandwidth_hz: float) -> int:
        """L: as given, or the fewest whose response does not repeat within the bandwidth."""
        return self.taps or least_taps(bandwidth_hz, self.delay_spread_s)

    def coefficients(self, request: SelectiveRequest) -> tuple[Complex, Array]:
        """The line in the time domain, see `tap_coefficients`."""
        return tap_coefficients(request, self.taps_over(request.bandwidth_hz), self.delay_spread_s)

    def respond(self, request: SelectiveRequest) -> SelectiveResponse:
        """H(f, t) = sum_l a_l(t) e^(-j 2 pi f tau_l), less what late taps do not give."""
        import torch

        coefficients, delays_s = self.coefficients(request)
        phases = torch.from_numpy(
            np.exp(-2j * np.pi * np.outer(delays_s, request.frame.frequencies_hz)).astype(np.complex64)
        )
        taps = torch.from_numpy(coefficients.astype(np.complex64))
        response = torch.empty((*taps.shape[:-1], request.frame.subcarriers), dtype=torch.complex64, device="cpu")
        # A product a device, not one for all: then no bit of a device's row depends on how many rows there are.
        for row, device_taps in zip(response, taps, strict=True):
            torch.matmul(device_taps, phases, out=row)
        found = np.asarray(response.numpy())
        late = (late_paths(row, delays_s, request) for row in coefficients)
        return SelectiveResponse(found, take_late(found, late))


def tap_spacing_s(delay_spread_s: float, taps: int) -> float:
    """Spacing at which L equal taps have this rms delay spread; 0 for one tap, which is flat whatever is asked."""
    return delay_spread_s * math.sqrt(12 / (taps**2 - 1)) if taps > 1 else 0.0


def least_taps(bandwidth_hz: float, delay_spread_s: float) -> int:
    """Fewest taps whose response does not repeat within the bandwidth: 1/spacing > bandwidth."""
    return math.floor(math.sqrt(1 + 12 * (bandwidth_hz * delay_spread_s) ** 2)) + 1


def tap_coefficients(request: SelectiveRequest, count: int, delay_spread_s: float) -> tuple[Complex, Array]:
    """The line of so many taps in the time domain: a_l(t) at the blocks' starts, and tau_l.

    A device's numbers are laid out antenna by antenna, the standing fade before what moves it: fewer antennas see the
    first of more (unless antennas are correlated), and at the time the numbers are drawn for, a moving device has the
    fade of one that stands.
    Returns ([devices, antennas, blocks, L], [L] in s); a single block where the channel stands still.
    """
    standing = 2 * count
    whole = standing + 3 * PATHS * count
    used = whole if request.moves else standing
    uniforms = request.draw((request.antennas - 1) * whole + used)
    antennas = [
        _antenna(uniforms[:, antenna * whole : antenna * whole + used], request, count)
        for antenna in range(request.antennas)
    ]
    delays_s = tap_spacing_s(delay_spread_s, count) * np.arange(count, dtype=np.float64)
    taps = np.stack(antennas, axis=1) / math.sqrt(count)
    return taps if request.spatial_roots is None else correlate(request.spatial_roots, taps), delays_s


def _antenna(uniforms: Array, request: SelectiveRequest, taps: int) -> Complex:
    """Taps of unit power at one antenna, [devices, columns] -> [devices, blocks, L].

    Moving taps are sum_m c_m exp(j 2 pi f_D t cos alpha_m) with c_m ~ CN(0, 1/M), one angle in each M-th of the circle:
    Gaussian at every time, and over draws their autocorrelation is J0(2 pi f_D t) exactly (Clarke 1968).
    """
    devices = len(uniforms)
    fade = circular_gaussian(uniforms[:, : 2 * taps])
    if not request.moves:
        return fade[:, None]
    middle = 2 * taps * (1 + PATHS)
    spread = circular_gaussian(uniforms[:, 2 * taps : middle]).reshape(devices, taps, PATHS) / math.sqrt(PATHS)
    # Only the sum of the c_m is exchanged for the standing fade, itself CN(0, 1): they stay i.i.d. CN(0, 1/M).
    paths = spread + (fade[..., None] - spread.sum(axis=-1, keepdims=True)) / PATHS
    jitter = uniforms[:, middle:].reshape(devices, taps, PATHS)
    angular_hz = 2 * np.pi * request.doppler_hz * np.cos(2 * np.pi * (np.arange(PATHS) + jitter) / PATHS)
    paths *= np.exp(1j * angular_hz * request.first_block_s)
    step = np.exp(1j * angular_hz * request.frame.block_s)
    moving = np.empty((devices, request.blocks, taps), dtype=np.complex128)
    for block in range(request.blocks):
        moving[:, block] = paths.sum(axis=-1)
        paths *= step
    return moving
