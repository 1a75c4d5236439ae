"""Power control across cells: how far each cell lowers its power, so that the others suffer less interference.

Cell l aggregates over the air with its own power policy. If it sends with the share x_l of its power, 0 < x_l <= 1, all
its devices arrive with sqrt(x_l) times their amplitudes, so that its beta is sqrt(x_l) times as large, its messages are
aligned as before, and the error of its decoded mean due to noise and interference is

    e_l(x) = (n_l + sum_c v_lc x_c) / x_l

n_l is the error of the cell alone at full power, v_lc what cell c at full power adds to it, and v_ll = 0. In y = log x
the errors are sums of exponentials, and thus convex, so that what is found here is the global optimum.

The trade-off between the errors of cells, and its characterisation by a central controller: X. Cao, G. Zhu, J. Xu,
K. Huang, "Cooperative Interference Management for Over-the-Air Computation Networks", IEEE Transactions on Wireless
Communications 20(4), 2021. They choose the power of every device; here, each cell keeps the plan of its policy up to
x_l.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

Array = NDArray[np.float64]
AcrossCells = Literal["none", "sum", "min-max"]
"""What the cells minimise together: nothing, so that each sends with all of its power; the sum of their errors; or the
largest ratio of a cell's error to that of the cell alone."""

# A share that differs from 1 by less than this does so by rounding.
ROUNDING = 1e-12
# Steps of inverse iteration, each of which leaves about `ROUNDING` of what is not the Perron vector.
INVERSE_STEPS = 2
# Newton's method ends when it no longer decreases the sum by more than this share of it, or after so many steps.
HIDDEN, MOST_STEPS = 1e-14, 200
# Cells this near to full power, in log x, that gain by more power are held there in a step of Newton's method.
NEAR_FULL = 1e-3
# Share of the decrease by the tangent that a step has to reach, and the longest step in log x.
SUFFICIENT, LONGEST = 1e-4, 10.0


def power_shares(alone: Array, crossing: Array, minimise: AcrossCells) -> Array:
    """Return x, the share of its power with which each cell sends, [cells].

    Args:
        alone: n, error of each cell alone at full power, [cells]; 0 for a cell that receives nothing. Such a cell does
            not take part: it keeps its power, and what it sends and receives is ignored.
        crossing: v, what cell c at full power adds to the error of cell l, [l, c].
        minimise: What the cells minimise together, see `AcrossCells`.

    Raises ValueError if a number is negative or not finite.
    """
    for name, values in (("alone", alone), ("crossing", crossing)):
        if not np.isfinite(values).all() or (values < 0).any():
            raise ValueError(f"{name} must be finite and at least 0, got {values.tolist()}")
    shares: Array = np.ones(len(alone))
    taking_part = np.flatnonzero(alone > 0)
    crossing = crossing[np.ix_(taking_part, taking_part)].astype(np.float64)
    np.fill_diagonal(crossing, 0.0)
    if minimise == "none" or not crossing.any():
        return shares
    # Cells that neither reach each other nor a common third one are independent problems.
    groups, of_group = connected_components(crossing > 0, directed=False)
    for group in range(groups):
        rows = np.flatnonzero(of_group == group)
        if len(rows) > 1:
            cells, within = taking_part[rows], crossing[np.ix_(rows, rows)]
            shares[cells] = (
                least_sum(alone[cells], within) if minimise == "sum" else least_largest(within / alone[cells, None])
            )
    return np.where(shares > 1 - ROUNDING, 1.0, shares)


def errors(alone: Array, crossing: Array, shares: Array) -> Array:
    """Return e, the error of each cell if the cells send with these shares of their power, [cells].

    alone, crossing: As in `power_shares`.
    """
    return np.asarray((alone + crossing @ shares) / shares)


def least_largest(crossing: Array) -> Array:
    """Return the x that minimises the largest of the errors (1 + sum_c v_lc x_c) / x_l, [cells].

    At the optimum, all errors are equal to some tau and one cell k sends at full power, so that x solves
    tau x = (V + 1 e_k^T) x. It is the Perron vector of that matrix, and the optimum is that of the cell k whose matrix
    has the largest spectral radius: only for this k does no other x_l exceed 1.

    crossing: v over the error alone, [cells, cells].
    """
    cells = len(crossing)
    matrices = crossing + np.eye(cells)[:, None, :]  # of each k, whose column is increased by 1
    radii = np.linalg.eigvals(matrices).real.max(axis=1)
    full = int(np.argmax(radii))
    # By inverse iteration: eigenvectors of numpy are inaccurate if other eigenvalues coincide, as in symmetric cells.
    shifted = radii[full] * (1 + ROUNDING) * np.eye(cells) - matrices[full]
    shares: Array = np.ones(cells)
    for _ in range(INVERSE_STEPS):
        shares = np.abs(np.linalg.solve(shifted, shares))
        shares /= shares.max()
    return shares


def least_sum(alone: Array, crossing: Array) -> Array:
    """Return the x that minimises the sum of the errors, [cells], by Newton's method in log x, projected onto x <= 1.

    Source of the method: D. P. Bertsekas, "Projected Newton Methods for Optimization Problems with Simple Constraints",
    SIAM Journal on Control and Optimization 20(2), 1982.

    alone, crossing: as in `power_shares`, for cells of which each reaches another or is reached.
    """
    logs: Array = np.zeros(len(alone))
    for _ in range(MOST_STEPS):
        noise, pairs = _terms(alone, crossing, logs)
        total = float(noise.sum() + pairs.sum())
        gradient = pairs.sum(axis=0) - pairs.sum(axis=1) - noise
        curvature = noise + pairs.sum(axis=0) + pairs.sum(axis=1)
        direction = -gradient / curvature
        free = (logs < -NEAR_FULL) | (gradient > 0)
        if free.all():  # one cell has full power at the optimum; moving all of them changes nothing but the noise
            pinned = int(np.argmax(logs))
            free[pinned], direction[pinned] = False, 0.0
        hessian = (np.diag(curvature) - pairs - pairs.T)[np.ix_(free, free)]
        direction[free] = -np.linalg.solve(hessian, gradient[free])
        step, decrease = LONGEST / max(float(np.abs(direction).max()), LONGEST), -gradient * direction
        for _ in range(MOST_STEPS):
            reached = np.minimum(logs + step * direction, 0.0)
            reached -= reached.max()
            promised = float(np.where(free, step * decrease, gradient * (logs - reached)).sum())
            # A decrease that rounding hides cannot be checked; there, near the optimum, the step is right without that.
            hidden = promised <= HIDDEN * total
            if hidden or _total(alone, crossing, reached) <= total - SUFFICIENT * promised:
                break
            step /= 2
        logs = reached
        if hidden:
            break
    return np.asarray(np.exp(logs))


def _terms(alone: Array, crossing: Array, logs: Array) -> tuple[Array, Array]:
    """Return n_l/x_l, [cells], and v_lc x_c/x_l, [cells, cells]."""
    return alone * np.exp(-logs), crossing * np.exp(logs[None, :] - logs[:, None])


def _total(alone: Array, crossing: Array, logs: Array) -> float:
    noise, pairs = _terms(alone, crossing, logs)
    return float(noise.sum() + pairs.sum())
