"""Record-level releases of one participation of a device: noise on mini-batches of its own data."""

from __future__ import annotations

import functools
import math

from airfl.privacy.bounds import bounds
from airfl.privacy.events import Composed, Event, FixedSizeSampled, Gaussian, repeated

# Candidate shares of the noise variance that the sampled term of a variance-reduced estimator gets.
SPLITS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 2 / 3, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999)
# The delta at which the candidates are compared.
DELTA = 1e-3

Batches = tuple[tuple[Event, int], ...]


def mini_batches(noise_multiplier: float, sample: int, samples: int, count: int = 1) -> Batches:
    """Return `count` releases, each on a newly drawn mini-batch: `sample` of `samples` records without replacement.

    noise_multiplier: noise on an entry over the largest contribution of one record.
    """
    return ((FixedSizeSampled(sample, samples, Gaussian(noise_multiplier)), count),)


@functools.lru_cache(maxsize=256)  # points of a sweep and runs over seeds share their releases
def variance_reduced_batches(
    noise_std: float, clip: float, batch: int, samples: int, participations: int = 100
) -> Batches:
    """Return the releases of a noisy SVRG or SAGA estimate A + B + xi: A is the mean of phi over b of m records with
    ||phi|| <= 2 G, B the mean of psi over all m with ||psi|| <= G (SoteriaFL, lemma 1; clip: G).

    A + B + xi is post-processing of (A + xi_1, B + xi_2), where the variances of xi_1 and xi_2 add up to that of xi,
    for any split between them. A is released on a sample, B on all records. Every split gives a bound; the result is
    the one of `SPLITS` with the smallest epsilon after `participations` at delta = 1e-3. SAGA's table depends on
    earlier batches; as in the paper, every batch nevertheless counts as drawn independently.
    """
    if noise_std <= 0:
        return ((Gaussian(0.0), 1),)

    def batches(share: float) -> Batches:
        in_batch = Gaussian(math.sqrt(share) * noise_std * batch / (2 * clip))
        in_all = Gaussian(math.sqrt(1 - share) * noise_std * samples / clip)
        return (FixedSizeSampled(batch, samples, in_batch), 1), (in_all, 1)

    def cost(candidate: Batches) -> float:
        return bounds(repeated(Composed(candidate), participations), "replace_one", DELTA, lower=False).upper

    return min(map(batches, SPLITS), key=cost)
