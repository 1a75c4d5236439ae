"""An upper bound on the performance of any receive beamformer: the dual bound of semidefinite relaxation."""

import numpy as np

from channels.antennas.combiner import Array, channel_vectors
from channels.csi.state import Response

_STEP = 0.1
_HOTTEST, _COLDEST = 0.3, 0.01


def upper_bound(response: Response, factors: Array, iterations: int = 150) -> Array:
    """Return an upper bound on min_i w_i^2 |a^H h_i|^2 over unit-norm a, [blocks, subcarriers].

    response: [devices, antennas, blocks, subcarriers]; factors: w_i > 0, [devices].

    For any shares l >= 0 with sum 1, the minimum is at most the largest eigenvalue of sum_i l_i w_i^2 h_i h_i^H
    (Sidiropoulos et al. 2006). The smallest of these largest eigenvalues over the iterations is returned, which is a
    valid bound after any number of them. The shares follow optimistic exponentiated gradients, with the eigenvector
    replaced by a mixture of decreasing temperature.
    """
    channels = channel_vectors(response, factors)
    scale = np.maximum((np.abs(channels) ** 2).sum(axis=2).max(axis=1), np.finfo(np.float64).tiny)
    # The nonzero eigenvalues of V diag(l) V^H equal those of sqrt(l) V^H V sqrt(l), which has one row per device.
    gram = channels @ channels.conj().swapaxes(1, 2) / scale[:, None, None]
    logarithms = np.zeros(gram.shape[:2])
    total, gradient, bound = np.zeros_like(logarithms), None, np.full(len(gram), np.inf)
    for iteration in range(iterations):
        shares = _normalised(logarithms)
        if iteration >= iterations // 2:
            total += shares
        eigenvalues, products = _spectrum(gram, shares)
        largest = np.maximum(eigenvalues[:, -1:], np.finfo(np.float64).tiny)
        bound = np.minimum(bound, largest[:, 0])
        temperature = max(_HOTTEST / (1 + iteration / 5), _COLDEST)
        mixture = _normalised(eigenvalues / largest / temperature)
        previous, gradient = gradient, (products @ mixture[:, :, None])[:, :, 0] / largest
        logarithms = logarithms - _STEP * (2 * gradient - (gradient if previous is None else previous))
    mean = total / total.sum(axis=1, keepdims=True)
    return np.asarray((np.minimum(bound, _spectrum(gram, mean)[0][:, -1]) * scale).reshape(response.shape[2:]))


def _normalised(logarithms: Array) -> Array:
    """Softmax over devices."""
    weights = np.exp(logarithms - logarithms.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _spectrum(gram: Array, shares: Array) -> tuple[Array, Array]:
    """Return eigenvalues of sum_i l_i v_i v_i^H, [coefficients, devices], and |v_i^H u_k|^2 of its eigenvectors u_k,
    [..., devices, devices]."""
    roots = np.sqrt(shares)
    values, vectors = np.linalg.eigh(roots[:, :, None] * gram * roots[:, None, :])
    above = values > 1e-12 * values[:, -1:]
    products = np.abs((gram * roots[:, None, :]) @ vectors) ** 2
    return values, np.asarray(np.where(above, 1.0, 0.0)[:, None] * products / np.where(above, values, 1.0)[:, None])
