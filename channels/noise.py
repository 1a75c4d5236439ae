"""Receiver noise on the observed real entries."""

import numpy as np
from numpy.typing import NDArray


def receiver_noise(generator: np.random.Generator, entries: int, noise_std: float) -> NDArray[np.float32]:
    """Gaussian noise z ~ N(0, noise_std^2 I) of PFELS eq. 7, [entries], float32.

    noise_std is sigma_0 on one observed real entry: the real part of CN(0, 2 sigma_0^2). Under I/Q packing both parts
    are observed, each with this standard deviation. Draws are sequential: a shorter message sees a prefix of a longer
    one's noise.
    """
    noise = generator.standard_normal(entries, dtype=np.float32)
    return noise * np.float32(noise_std)
