"""Peak limits: limits of the energy on a single resource element, in addition to the limit of a round."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from channels.power.plan import Array, PowerPlan


def back_off(plan: PowerPlan, element_bounds: Array, peak_energies: Array) -> PowerPlan:
    """Lower beta and all amplitudes until no resource element can exceed a device's peak limit.

    element_bounds: largest possible modulus of an entry of device i's message (or of two entries that share an
    element), at most the norm of the message; peak_energies: limit on |b_i element|^2; both [devices]. The limit holds
    in the worst case: an element at its bound on the coefficient with the largest amplitude. A plan with a single beta
    keeps a single one, otherwise each coefficient is lowered separately. Contributions keep their proportions, so an
    aligned plan remains aligned. If anything is lowered, the power bound is the binding one.

    Raises ValueError for a peak limit that is not positive, and for entries without a bound.
    """
    if not np.all(peak_energies > 0):
        raise ValueError(f"peak limits must be positive, got {np.min(peak_energies):g}")
    if not np.all(np.isfinite(element_bounds)):
        raise ValueError("a peak limit needs entries with a bound; clip the entries first")
    peaks = plan.amplitudes * (element_bounds / np.sqrt(peak_energies))[:, None, None]
    shared = tuple(axis for axis, length in enumerate(plan.coefficient.shape) if length == 1)
    excess = peaks.max(axis=0, initial=0.0).max(axis=shared, keepdims=True)
    if np.all(excess <= 1):
        return plan
    factor = 1 / np.maximum(excess, 1.0)
    # If the privacy bound is binding, it equals the largest beta.
    at_privacy_bound = (plan.coefficient == plan.coefficient.max()) & (excess > 0) & (excess <= 1)
    return replace(
        plan,
        amplitudes=plan.amplitudes * factor,
        coefficient=plan.coefficient * factor,
        power_bound_binding=True,
        privacy_bound_binding=plan.privacy_bound_binding and bool(at_privacy_bound.any()),
    )
