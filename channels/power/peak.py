"""Peak limits: what a device may spend on a single resource element, beside what it may spend in a round."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from channels.power.plan import Array, PowerPlan


def back_off(plan: PowerPlan, element_bounds: Array, peak_energies: Array) -> PowerPlan:
    """Lower beta, and every amplitude with it, until no resource element can exceed a device's peak limit.

    element_bounds: largest modulus that an entry of device i's message, or two that share an element, can have, which
    is never above the norm of the whole; peak_energies: limit on |b_i element|^2; both [devices]. The limit holds in
    the worst case, an element at its bound on the coefficient with the largest amplitude. A plan with one
    beta for all coefficients keeps one; otherwise each coefficient is lowered by itself. Contributions keep their
    proportions, so what was aligned stays so. Where anything is lowered the power bound is the one that binds.

    Raises ValueError for a peak limit that is not above 0, or entries without a bound.
    """
    if not np.all(peak_energies > 0):
        raise ValueError(f"a peak limit of {np.min(peak_energies):g} lets nothing be sent: give one above 0")
    if not np.all(np.isfinite(element_bounds)):
        raise ValueError("a peak limit cannot be kept by entries without a bound: clip the entries first")
    peaks = plan.amplitudes * (element_bounds / np.sqrt(peak_energies))[:, None, None]
    shared = tuple(axis for axis, length in enumerate(plan.coefficient.shape) if length == 1)
    excess = peaks.max(axis=0, initial=0.0).max(axis=shared, keepdims=True)
    if np.all(excess <= 1):
        return plan
    factor = 1 / np.maximum(excess, 1.0)
    # Where the privacy bound binds it is the largest beta of all.
    at_bound = (plan.coefficient == plan.coefficient.max()) & (excess > 0) & (excess <= 1)
    return replace(
        plan,
        amplitudes=plan.amplitudes * factor,
        coefficient=plan.coefficient * factor,
        power_bound_binding=True,
        privacy_bound_binding=plan.privacy_bound_binding and bool(at_bound.any()),
    )
