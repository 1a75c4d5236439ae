"""A lightweight frequency-selective model: equally spaced i.i.d. Rayleigh taps with Clarke's Doppler spectrum.

The mean power of each of the L taps is 1/L, so that E|H|^2 = 1. Equally spaced taps make the response periodic in
frequency, with period 1/spacing = sqrt((L^2 - 1)/12)/delay spread. `min_taps` returns the number of taps for which
the period exceeds a bandwidth.
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

# Number of paths in a time-varying tap. It does not affect the mean power, the distribution or J0, which are exact over
# draws. Over time, the power of one drawn tap is within about 1/sqrt(paths) of 1/L.
PATHS = 32


class TappedLine(SelectiveFading):
    """Equally spaced i.i.d. Rayleigh taps of equal power."""

    name = "tapped-line"
    source = "uncorrelated scattering (Bello 1963) on equal taps, Clarke's Doppler spectrum (1968)"
    gaussian = True
    variations = ("independent", "constant", "jakes")

    delay_spread_s: float = delay_spread()
    taps: int = parameter(
        default=0,
        ge=0,
        key="taps",
        description="number of taps, for fading = tapped-line; 0 = enough for the bandwidth",
    )

    @property
    def spread_s(self) -> float:
        """The rms delay spread in s."""
        return self.delay_spread_s

    def taps_over(self, bandwidth_hz: float) -> int:
        """Return L: `taps`, or if that is 0 the smallest number whose response is not periodic within the bandwidth."""
        return self.taps or min_taps(bandwidth_hz, self.delay_spread_s)

    def coefficients(self, request: SelectiveRequest) -> tuple[Complex, Array]:
        """Return the taps in the time domain; see `tap_coefficients`."""
        return tap_coefficients(request, self.taps_over(request.bandwidth_hz), self.delay_spread_s)

    def respond(self, request: SelectiveRequest) -> SelectiveResponse:
        """Return H(f, t) = sum_l a_l(t) e^(-j 2 pi f tau_l), minus the amplitude that late taps lose."""
        import torch

        coefficients, delays_s = self.coefficients(request)
        phases = torch.from_numpy(
            np.exp(-2j * np.pi * np.outer(delays_s, request.frame.frequencies_hz)).astype(np.complex64)
        )
        taps = torch.from_numpy(coefficients.astype(np.complex64))
        response = torch.empty((*taps.shape[:-1], request.frame.subcarriers), dtype=torch.complex64, device="cpu")
        # One product per device, so that a device's row does not depend on the number of rows, bit for bit.
        for row, device_taps in zip(response, taps, strict=True):
            torch.matmul(device_taps, phases, out=row)
        array = np.asarray(response.numpy())
        late = (late_paths(row, delays_s, request) for row in coefficients)
        return SelectiveResponse(array, take_late(array, late))


def tap_spacing_s(delay_spread_s: float, taps: int) -> float:
    """Return the spacing at which L equal taps have this rms delay spread; 0 for a single tap, which is flat."""
    return delay_spread_s * math.sqrt(12 / (taps**2 - 1)) if taps > 1 else 0.0


def min_taps(bandwidth_hz: float, delay_spread_s: float) -> int:
    """Return the smallest number of taps whose response is not periodic within the bandwidth: 1/spacing > bandwidth."""
    return math.floor(math.sqrt(1 + 12 * (bandwidth_hz * delay_spread_s) ** 2)) + 1


def tap_coefficients(request: SelectiveRequest, count: int, delay_spread_s: float) -> tuple[Complex, Array]:
    """Return the coefficients a_l(t) of `count` taps at the starts of the blocks, and their delays tau_l.

    A device's random numbers are laid out antenna by antenna, with those of the static realisation before those of the
    motion. A run with fewer antennas therefore has the channels of the first ones of a run with more (unless antennas
    are correlated), and at the time for which the numbers are drawn, a moving device has the channel of a static one.
    Returns ([devices, antennas, blocks, L], [L] in s), with a single block if the channel is static.
    """
    static = 2 * count
    whole = static + 3 * PATHS * count
    used = whole if request.moves else static
    uniforms = request.draw((request.antennas - 1) * whole + used)
    antennas = [
        _antenna(uniforms[:, antenna * whole : antenna * whole + used], request, count)
        for antenna in range(request.antennas)
    ]
    delays_s = tap_spacing_s(delay_spread_s, count) * np.arange(count, dtype=np.float64)
    taps = np.stack(antennas, axis=1) / math.sqrt(count)
    return taps if request.spatial_roots is None else correlate(request.spatial_roots, taps), delays_s


def _antenna(uniforms: Array, request: SelectiveRequest, taps: int) -> Complex:
    """Return taps of unit power at one antenna, [devices, columns] -> [devices, blocks, L].

    Time-varying taps are sum_m c_m exp(j 2 pi f_D t cos alpha_m) with c_m ~ CN(0, 1/M) and one angle in each of M equal
    sectors of the circle. They are Gaussian at every time, and their autocorrelation over draws is exactly
    J0(2 pi f_D t) (Clarke 1968).
    """
    devices = len(uniforms)
    static = circular_gaussian(uniforms[:, : 2 * taps])
    if not request.moves:
        return static[:, None]
    middle = 2 * taps * (1 + PATHS)
    spread = circular_gaussian(uniforms[:, 2 * taps : middle]).reshape(devices, taps, PATHS) / math.sqrt(PATHS)
    # Only the sum of the c_m is replaced, by the static realisation, which is CN(0, 1): they remain i.i.d. CN(0, 1/M).
    paths = spread + (static[..., None] - spread.sum(axis=-1, keepdims=True)) / PATHS
    jitter = uniforms[:, middle:].reshape(devices, taps, PATHS)
    cosines = np.cos(2 * np.pi * (np.arange(PATHS) + jitter) / PATHS)
    doppler_hz = np.asarray(request.doppler_hz).reshape(-1, 1, 1)
    angular_hz = 2 * np.pi * doppler_hz * cosines
    if request.ways_m is None:
        paths *= np.exp(1j * angular_hz * request.first_block_s)
    else:
        paths *= np.exp(2j * np.pi * np.asarray(request.wavelengths).reshape(-1, 1, 1) * cosines)
    step = np.exp(1j * angular_hz * request.frame.block_s)
    moving = np.empty((devices, request.blocks, taps), dtype=np.complex128)
    for block in range(request.blocks):
        moving[:, block] = paths.sum(axis=-1)
        paths *= step
    return moving
