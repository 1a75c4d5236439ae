"""The receive beamformer of the largest worst gain, max over ||a|| = 1 of min_i w_i^2 |a^H h_i|^2.

This is max-min-fair single-group multicast beamforming (Sidiropoulos, Davidson, Luo 2006), NP-hard, in the receiver of
a sum (Chen, Qin, Wei 2018). MU-SLA (Gopalakrishnan, Sidiropoulos 2015): multiplicative updates find good starts, and
successive linear approximations climb from them. The line drawn under each |a^H v_i| is under the modulus, not under
its square as in the paper: x^2 >= 2 x x0 - x0^2, so a step gains no less, and it is a nearest-point problem.
"""

import numpy as np

from channels.antennas.combiner import Array, Combiner, Complex, as_weights, channel_vectors, unit
from channels.antennas.first import First
from channels.antennas.nearest import nearest_points
from channels.antennas.principal import principal_vectors
from channels.csi.state import Response

_UPDATES = 30  # multiplicative updates of a start
_MATCHED = 3  # weakest devices whose matched filters are starts
_STEPS = 60  # linear approximations of a climb
_EXCHANGES = 10  # steps of the nearest-point search in each; the next goes on from where it was
_TOLERANCE = 1e-4  # relative: of a step's gain, and of the gap of a nearest point
_CHUNK = 2**17  # complex numbers worked on at a time, about what a processor's cache holds


class MaxMin(Combiner):
    """The largest worst gain."""

    name = "max-min"
    source = (
        "MU-SLA: Gopalakrishnan, Sidiropoulos, High performance adaptive algorithms for single-group multicast "
        "beamforming, IEEE Trans. Signal Process. 2015; for sums over the air: Chen, Qin, Wei, A uniform-forcing "
        "transceiver design for over-the-air function computation, IEEE Wireless Commun. Lett. 2018"
    )

    def weights(self, response: Response, factors: Array) -> Complex:
        """Those that the search finds; with one antenna, or nobody to hear, the first antenna."""
        devices, antennas = response.shape[:2]
        if antennas == 1 or not devices:
            return First().weights(response, factors)
        channels = channel_vectors(response, factors)
        plain = channel_vectors(response, np.sign(factors)).sum(axis=1)
        size = max(_CHUNK // (devices * antennas), 1)
        parts = [_solve(channels[n : n + size], plain[n : n + size]) for n in range(0, len(channels), size)]
        return as_weights(np.concatenate(parts), response)


def _solve(channels: Complex, plain: Complex) -> Complex:
    """Weights [coefficients, antennas]; channels: v_i = w_i h_i, [coefficients, devices, antennas]; plain: sum_i h_i.

    Updates set out from the other combiners, so that nothing is lost by them, and the best is climbed from. The matched
    filters of the weakest devices are climbed from as they are: updates lead them all to the same few places.
    """
    first = np.zeros_like(plain)
    first[:, 0] = 1.0
    others = (first, plain, principal_vectors(channels))
    basis, channels = _span(_heard(channels))
    starts = [unit((start[:, None] @ basis.conj())[:, 0]) for start in others]
    updated = _best(channels, [_updated(channels, start) for start in starts])
    weakest = np.argsort(np.linalg.norm(channels, axis=2), axis=1, kind="stable")[:, :_MATCHED]
    matched = [unit(channels[np.arange(len(channels)), device]) for device in weakest.T]
    best = _best(channels, [_climbed(channels, start) for start in (updated, *matched)])
    weights = (best[:, None] @ basis.swapaxes(1, 2))[:, 0]
    return unit(weights * np.exp(-1j * np.angle(weights[:, :1])))


def _best(channels: Complex, candidates: list[Complex]) -> Complex:
    """Of weights [coefficients, antennas] each, for every coefficient those of the largest least gain."""
    best = np.argmax([_least(channels, weights) for weights in candidates], axis=0)
    return np.asarray(np.array(candidates)[best, np.arange(len(channels))])


def _heard(channels: Complex) -> Complex:
    """Scaled so that the strongest device has norm 1; devices with no channel stand as its copies, and limit nobody."""
    norms = np.linalg.norm(channels, axis=2, keepdims=True)
    strongest = np.take_along_axis(channels, norms.argmax(axis=1, keepdims=True), axis=1)
    scale = norms.max(axis=1, keepdims=True)
    return np.asarray(np.where(norms > 0, channels, strongest) / np.where(scale > 0, scale, 1.0))


def _span(channels: Complex) -> tuple[Complex, Complex]:
    """Orthonormal basis [coefficients, antennas, q] of the devices' channels, and these in it; there the best a is."""
    coefficients, devices, antennas = channels.shape
    if antennas <= devices:
        return np.broadcast_to(np.eye(antennas, dtype=np.complex128), (coefficients, antennas, antennas)), channels
    basis, coordinates = np.linalg.qr(channels.swapaxes(1, 2))
    return basis, np.ascontiguousarray(coordinates.swapaxes(1, 2))


def _products(channels: Complex, weights: Complex) -> Complex:
    """v_i^H a, [coefficients, devices]."""
    return np.asarray((channels.conj() @ weights[:, :, None])[:, :, 0])


def _least(channels: Complex, weights: Complex) -> Array:
    """min_i |a^H v_i|, [coefficients]."""
    return np.asarray(np.abs(_products(channels, weights)).min(axis=1))


def _phases(products: Complex) -> Complex:
    """Their phase factors; 1 where a product is 0, so that a device at right angles is not lost."""
    moduli = np.abs(products)
    return np.asarray(np.where(moduli > 0, products, 1.0) / np.where(moduli > 0, moduli, 1.0))


def _updated(channels: Complex, weights: Complex) -> Complex:
    """Best iterate, the start among them, of the multiplicative update a <- unit(sum_i v_i v_i^H a / |v_i^H a|^2).

    It climbs in sum_i log |v_i^H a|^2. The paper adds a small constant to the denominator; here a floor lies under the
    modulus, relative to the norm of v_i.
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


def _climbed(channels: Complex, weights: Complex) -> Complex:
    """Successive linear approximation: |v_i^H a| >= Re(c_i^H a) with c_i = v_i e^(j phase of v_i^H a now).

    max over ||a|| <= 1 of min_i Re(c_i^H a) is the norm of the point nearest to 0 in the hull of the c_i, and a its
    direction. A step that does not gain is not taken; the search of its nearest point goes on in the next.
    """
    weights, least = weights.copy(), _least(channels, weights)
    shares = np.full(channels.shape[:2], 1.0 / channels.shape[1])
    active = np.arange(len(channels))
    for _ in range(_STEPS):
        vectors = channels[active]
        corners = np.ascontiguousarray(vectors * _phases(_products(vectors, weights[active]))[:, :, None])
        # Real and imaginary parts side by side: a real inner product is then Re(c^H a).
        found, points, solved = nearest_points(corners.view(np.float64), shares[active], _EXCHANGES, _TOLERANCE)
        shares[active] = found
        moved = unit(points.view(np.complex128))
        reached = _least(vectors, moved)
        done = solved & (reached <= (1 + _TOLERANCE) * least[active])
        better = reached > least[active]
        weights[active[better]], least[active[better]] = moved[better], reached[better]
        active = active[~done]
        if not len(active):
            break
    return weights
