"""Log-normal shadowing: a Gaussian loss in dB, fixed for a device's position and correlated between devices."""

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky
from scipy.spatial import KDTree
from scipy.spatial.distance import cdist
from scipy.special import ndtri

Array = NDArray[np.float64]

# Half the step of uniform doubles, because a uniform number of 0 would be an infinite gain.
_MIN_UNIFORM = 2.0**-54
# Number of devices whose shadowing is drawn jointly, and of neighbours on which each further device is conditioned.
JOINT, NEIGHBOURS = 2000, 50
# Independent share of the unit variance, so that the covariance is invertible for devices at the same position.
_NUGGET = 1e-9
_ROWS = 1000


def normal_scores(uniforms: Array) -> Array:
    """Transform uniform numbers in [0, 1) to N(0, 1) by inversion, in the same shape."""
    return np.asarray(ndtri(np.maximum(uniforms, _MIN_UNIFORM)))


def correlated(scores: Array, places_m: Array, correlation_m: float) -> Array:
    """Return N(0, 1) numbers with correlation exp(-d/correlation_m) at a horizontal distance of d.

    scores: independent N(0, 1) numbers, [devices], returned unchanged if correlation_m is 0; places_m: x and y,
    [devices, 2]. The correlation is that of Gudmundson, Electronics Letters 27(23), 1991 (TR 38.901, clause 7.4.4). A
    device's number depends only on its own score and on earlier devices, so additional devices change nothing. The
    first 2,000 devices have exactly this distribution (by Cholesky factorisation). Each further one is conditioned on
    the 50 nearest earlier devices only (Vecchia 1988), which is an approximation.
    """
    if correlation_m == 0 or len(scores) < 2:
        return scores
    joint = places_m[:JOINT]
    root = cholesky(_covariance(cdist(joint, joint), correlation_m), lower=True)
    shadowing = np.concatenate([root @ scores[:JOINT], np.empty(max(len(scores) - JOINT, 0))])
    for start in range(JOINT, len(scores), _ROWS):
        rows = np.arange(start, min(start + _ROWS, len(scores)))
        near = _nearest_before(places_m, rows)
        weights, spread = _conditional(places_m[near], places_m[rows], correlation_m)
        for row, device in enumerate(rows):
            shadowing[device] = weights[row] @ shadowing[near[row]] + spread[row] * scores[device]
    return shadowing


def _conditional(near_m: Array, places_m: Array, correlation_m: float) -> tuple[Array, Array]:
    """Regression weights of devices on their neighbours, [devices, neighbours], and conditional standard deviations,
    [devices]; from positions [devices, neighbours, 2] and [devices, 2]."""
    apart = np.linalg.norm(near_m[:, :, None] - near_m[:, None], axis=-1)
    to_device = (1 - _NUGGET) * np.exp(-np.linalg.norm(near_m - places_m[:, None], axis=-1) / correlation_m)
    weights = np.linalg.solve(_covariance(apart, correlation_m), to_device[:, :, None])[:, :, 0]
    return weights, np.sqrt(np.maximum(1 - (weights * to_device).sum(axis=1), 0))


def _nearest_before(places_m: Array, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Indices of the nearest earlier devices of each row, [rows, NEIGHBOURS]."""
    tree = KDTree(places_m[: rows[0]])
    earlier = tree.query(places_m[rows], k=NEIGHBOURS)[1]
    nearest = np.empty((len(rows), NEIGHBOURS), dtype=np.int64)
    for row, device in enumerate(rows):  # candidates are those of the tree and the preceding rows
        candidates = np.concatenate([earlier[row], rows[:row]])
        apart = np.hypot(*(places_m[candidates] - places_m[device]).T)
        nearest[row] = candidates[np.argsort(apart, kind="stable")[:NEIGHBOURS]]
    return nearest


def _covariance(apart_m: Array, correlation_m: float) -> Array:
    """Covariance of shadowing for pairwise distances, [..., devices, devices]."""
    return np.asarray((1 - _NUGGET) * np.exp(-apart_m / correlation_m) + _NUGGET * np.eye(apart_m.shape[-1]))
