"""The max-min receive beamformer, max over ||a|| = 1 of min_i w_i^2 |a^H h_i|^2.

This is max-min fair single-group multicast beamforming (Sidiropoulos, Davidson, Luo 2006), which is NP-hard, applied to
the receiver of a sum (Chen, Qin, Wei 2018). The algorithm is MU-SLA (Gopalakrishnan, Sidiropoulos 2015): multiplicative
updates find good starting points, which are improved by successive linear approximation. In contrast to the paper, the
modulus |a^H v_i| is linearised instead of its square: x^2 >= 2 x x0 - x0^2, so a step gains no less, and each step is a
nearest-point problem.
"""

import numpy as np

from channels.antennas.combiner import Array, Combiner, Complex, as_weights, channel_vectors, unit
from channels.antennas.first import First
from channels.antennas.nearest import nearest_points
from channels.antennas.principal import principal_vectors
from channels.csi.state import Response

_UPDATES = 30  # multiplicative updates per starting point
_MATCHED = 3  # number of weakest devices whose matched filters are starting points
_STEPS = 60  # largest number of linear approximations
_EXCHANGES = 10  # steps of the nearest-point search in each approximation; the next one continues it
_TOLERANCE = 1e-4  # relative gain of a step, and relative gap of a nearest point
_CHUNK = 2**17  # complex numbers processed at a time, about the size of a processor's cache


class MaxMin(Combiner):
    """Combining weights that maximise the smallest gain."""

    name = "max-min"
    source = (
        "MU-SLA: Gopalakrishnan, Sidiropoulos, High performance adaptive algorithms for single-group multicast "
        "beamforming, IEEE Trans. Signal Process. 2015; for sums over the air: Chen, Qin, Wei, A uniform-forcing "
        "transceiver design for over-the-air function computation, IEEE Wireless Commun. Lett. 2018"
    )

    def weights(self, response: Response, factors: Array) -> Complex:
        """Return the weights found by the search; with one antenna or no device, those of the first antenna."""
        devices, antennas = response.shape[:2]
        if antennas == 1 or not devices:
            return First().weights(response, factors)
        channels = channel_vectors(response, factors)
        channel_sum = channel_vectors(response, np.sign(factors)).sum(axis=1)
        size = max(_CHUNK // (devices * antennas), 1)
        parts = [_solve(channels[n : n + size], channel_sum[n : n + size]) for n in range(0, len(channels), size)]
        return as_weights(np.concatenate(parts), response)


def _solve(channels: Complex, channel_sum: Complex) -> Complex:
    """Return weights [coefficients, antennas].

    channels: v_i = w_i h_i, [coefficients, devices, antennas]; channel_sum: sum_i h_i, [coefficients, antennas].

    Multiplicative updates start from the other combiners, so that the result is at least as good, and the best one is
    improved by linear approximation. The matched filters of the weakest devices are improved without updates, which
    would lead them all to the same few points.
    """
    first = np.zeros_like(channel_sum)
    first[:, 0] = 1.0
    others = (first, channel_sum, principal_vectors(channels))
    basis, channels = _span(_normalised(channels))
    starts = [unit((start[:, None] @ basis.conj())[:, 0]) for start in others]
    updated = _best(channels, [_updated(channels, start) for start in starts])
    weakest = np.argsort(np.linalg.norm(channels, axis=2), axis=1, kind="stable")[:, :_MATCHED]
    matched = [unit(channels[np.arange(len(channels)), device]) for device in weakest.T]
    best = _best(channels, [_improved(channels, start) for start in (updated, *matched)])
    weights = (best[:, None] @ basis.swapaxes(1, 2))[:, 0]
    return unit(weights * np.exp(-1j * np.angle(weights[:, :1])))


def _best(channels: Complex, candidates: list[Complex]) -> Complex:
    """Select the candidate weights [coefficients, antennas] with the largest minimum gain, for each coefficient."""
    best = np.argmax([_least(channels, weights) for weights in candidates], axis=0)
    return np.asarray(np.array(candidates)[best, np.arange(len(channels))])


def _normalised(channels: Complex) -> Complex:
    """Scale channels so that the strongest has norm 1, and replace zero channels by copies of it, which never limit."""
    norms = np.linalg.norm(channels, axis=2, keepdims=True)
    strongest = np.take_along_axis(channels, norms.argmax(axis=1, keepdims=True), axis=1)
    scale = norms.max(axis=1, keepdims=True)
    return np.asarray(np.where(norms > 0, channels, strongest) / np.where(scale > 0, scale, 1.0))


def _span(channels: Complex) -> tuple[Complex, Complex]:
    """Return an orthonormal basis [coefficients, antennas, q] of the channels, which contains the optimal a, and the
    channels in that basis."""
    coefficients, devices, antennas = channels.shape
    if antennas <= devices:
        return np.broadcast_to(np.eye(antennas, dtype=np.complex128), (coefficients, antennas, antennas)), channels
    basis, coordinates = np.linalg.qr(channels.swapaxes(1, 2))
    return basis, np.ascontiguousarray(coordinates.swapaxes(1, 2))


def _products(channels: Complex, weights: Complex) -> Complex:
    """Return v_i^H a, [coefficients, devices]."""
    return np.asarray((channels.conj() @ weights[:, :, None])[:, :, 0])


def _least(channels: Complex, weights: Complex) -> Array:
    """Return min_i |a^H v_i|, [coefficients]."""
    return np.asarray(np.abs(_products(channels, weights)).min(axis=1))


def _phases(products: Complex) -> Complex:
    """Return the phase factors of products; 1 where a product is 0, so that an orthogonal device still has weight."""
    moduli = np.abs(products)
    return np.asarray(np.where(moduli > 0, products, 1.0) / np.where(moduli > 0, moduli, 1.0))


def _updated(channels: Complex, weights: Complex) -> Complex:
    """Return the best iterate, including the start, of the update a <- unit(sum_i v_i v_i^H a / |v_i^H a|^2).

    The update increases sum_i log |v_i^H a|^2. Instead of the small constant in the denominator of the paper, the
    modulus is bounded from below, relative to the norm of v_i.
    """
    floors = 1e-6 * np.linalg.norm(channels, axis=2)
    best, least = weights, np.full(len(weights), -np.inf)
    for _ in range(_UPDATES + 1):
        products = _products(channels, weights)
        moduli = np.abs(products)
        better = moduli.min(axis=1) > least
        best = np.where(better[:, None], weights, best)
        least = np.maximum(least, moduli.min(axis=1))
        steps = _phases(products) / np.maximum(np.maximum(moduli, floors), np.finfo(np.float64).tiny)
        weights = unit((steps[:, None] @ channels)[:, 0])
    return best


def _improved(channels: Complex, weights: Complex) -> Complex:
    """Improve weights by successive linear approximation: |v_i^H a| >= Re(c_i^H a), c_i = v_i e^(j arg v_i^H a).

    The maximum over ||a|| <= 1 of min_i Re(c_i^H a) is the norm of the point nearest to 0 in the convex hull of the
    c_i, and is attained by its direction. A step without gain is not taken; the next one continues its search.
    """
    weights, least = weights.copy(), _least(channels, weights)
    shares = np.full(channels.shape[:2], 1.0 / channels.shape[1])
    active = np.arange(len(channels))
    for _ in range(_STEPS):
        vectors = channels[active]
        corners = np.ascontiguousarray(vectors * _phases(_products(vectors, weights[active]))[:, :, None])
        # With interleaved real and imaginary parts, the real inner product is Re(c^H a).
        new_shares, points, solved = nearest_points(corners.view(np.float64), shares[active], _EXCHANGES, _TOLERANCE)
        shares[active] = new_shares
        moved = unit(points.view(np.complex128))
        gains = _least(vectors, moved)
        done = solved & (gains <= (1 + _TOLERANCE) * least[active])
        better = gains > least[active]
        weights[active[better]], least[active[better]] = moved[better], gains[better]
        active = active[~done]
        if not len(active):
            break
    return weights
