"""Compare samples with their distribution: within five standard errors, or with a p-value that is not too small."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from channels.csi import IMPAIRMENTS
from channels.draws import Draw

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]
LEAST_P = 1e-4
"""A Kolmogorov-Smirnov p-value below this comes by chance once in 10,000 seeds."""


def assert_mean(sample: Any, expected: complex, rounding: float = 1e-12) -> None:
    """The mean is within 5 of the sample's own standard errors of what is expected, real and imaginary part each."""
    for part in (np.real, np.imag):
        values = part(np.asarray(sample)).ravel()
        tolerance = 5 * values.std() / math.sqrt(values.size) + rounding
        off = abs(values.mean() - part(expected))
        assert off <= tolerance, f"a mean of {values.mean():g} for {part(expected):g}, off by {off:g} > {tolerance:g}"


def assert_share(found: Any, expected: float, rounding: float = 1e-12) -> None:
    """The share of those that are true is within 5 of the binomial's standard errors of what is expected."""
    share, count = np.mean(found), np.size(found)
    tolerance = 5 * math.sqrt(expected * (1 - expected) / count) + rounding
    assert abs(share - expected) <= tolerance, f"a share of {share:g} of {count} for {expected:g} +- {tolerance:g}"


def assert_law(sample: NDArray[Any], cdf: str | Callable[..., Any]) -> None:
    """The sample may come from this distribution: scipy's name of it, or P(x <= argument)."""
    p = stats.kstest(sample, cdf).pvalue
    assert p > LEAST_P, f"p = {p:g} under the law that is expected"


def gaussian(generator: np.random.Generator, *shape: int) -> Complex:
    """CN(0, 1)."""
    pairs = generator.standard_normal((*shape, 2)) * math.sqrt(0.5)
    return np.asarray(pairs[..., 0] + 1j * pairs[..., 1])


def draws(devices: int, seed: int) -> dict[str, Draw]:
    """Numbers of every impairment of the CSI, each its own."""

    def of(address: int) -> Draw:
        return lambda count: np.random.default_rng([seed, address]).random((devices, count))

    return {name: of(address) for address, name in enumerate(IMPAIRMENTS)}


def bessel(x: float) -> float:
    """J0 by Bessel's integral, mean of cos(x sin t) over a period: the trapezoid rule is exact for it."""
    return float(np.cos(x * np.sin(np.arange(400) * np.pi / 200)).mean())
