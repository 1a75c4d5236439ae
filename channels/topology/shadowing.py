"""Log-normal shadowing: a Gaussian loss in dB that a device keeps for as long as it stays where it is, and that its
neighbours share."""

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky
from scipy.spatial import KDTree
from scipy.spatial.distance import cdist
from scipy.special import ndtri

Array = NDArray[np.float64]

# Half the step of a double's uniform numbers: a uniform of 0 would be an infinite gain.
_LEAST_UNIFORM = 2.0**-54
# Devices whose shadowing is drawn jointly, and neighbours that each further one is drawn from.
JOINT, NEIGHBOURS = 2000, 50
# What two devices in one place do not share of a variance of 1, so that the covariance stays invertible.
_NUGGET = 1e-9
_ROWS = 1000


def normal_scores(uniforms: Array) -> Array:
    """N(0, 1) by inversion of uniforms in [0, 1), same shape."""
    return np.asarray(ndtri(np.maximum(uniforms, _LEAST_UNIFORM)))


def correlated(scores: Array, places_m: Array, correlation_m: float) -> Array:
    """N(0, 1) numbers whose correlation is exp(-d/correlation_m) at a distance of d in the plane; independent ones as
    they are at 0 m (Gudmundson, Electronics Letters 27(23), 1991; TR 38.901, clause 7.4.4).

    scores: independent N(0, 1) numbers, [devices]; places_m: x and y, [devices, 2]. A device's number follows from its
    own score and those before it, so devices that come later move none. The first 2,000 have exactly this law (by
    Cholesky); each further one has its law given the 50 nearest before it (Vecchia 1988), which is an approximation.
    """
    if correlation_m == 0 or len(scores) < 2:
        return scores
    joint = places_m[:JOINT]
    root = cholesky(_covariance(cdist(joint, joint), correlation_m), lower=True)
    found = np.concatenate([root @ scores[:JOINT], np.empty(max(len(scores) - JOINT, 0))])
    for start in range(JOINT, len(scores), _ROWS):
        rows = np.arange(start, min(start + _ROWS, len(scores)))
        near = _nearest_before(places_m, rows)
        weights, spread = _given(places_m[near], places_m[rows], correlation_m)
        for row, device in enumerate(rows):
            found[device] = weights[row] @ found[near[row]] + spread[row] * scores[device]
    return found


def _given(near_m: Array, places_m: Array, correlation_m: float) -> tuple[Array, Array]:
    """What a device's number is of its neighbours' numbers, and the standard deviation of the rest; [devices,
    neighbours] and [devices] from places [devices, neighbours, 2] and [devices, 2]."""
    apart = np.linalg.norm(near_m[:, :, None] - near_m[:, None], axis=-1)
    to_device = (1 - _NUGGET) * np.exp(-np.linalg.norm(near_m - places_m[:, None], axis=-1) / correlation_m)
    weights = np.linalg.solve(_covariance(apart, correlation_m), to_device[:, :, None])[:, :, 0]
    return weights, np.sqrt(np.maximum(1 - (weights * to_device).sum(axis=1), 0))


def _nearest_before(places_m: Array, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """The nearest devices of a smaller number than each row's own, [rows, NEIGHBOURS]."""
    tree = KDTree(places_m[: rows[0]])
    earlier = tree.query(places_m[rows], k=NEIGHBOURS)[1]
    found = np.empty((len(rows), NEIGHBOURS), dtype=np.int64)
    for row, device in enumerate(rows):  # beside those of the tree, the rows before
        candidates = np.concatenate([earlier[row], rows[:row]])
        apart = np.hypot(*(places_m[candidates] - places_m[device]).T)
        found[row] = candidates[np.argsort(apart, kind="stable")[:NEIGHBOURS]]
    return found


def _covariance(apart_m: Array, correlation_m: float) -> Array:
    """Of devices that are so far from each other, [..., devices, devices]."""
    return np.asarray((1 - _NUGGET) * np.exp(-apart_m / correlation_m) + _NUGGET * np.eye(apart_m.shape[-1]))
