"""Releases of one device's participation where records are protected: noise on mini-batches of its own data."""

from __future__ import annotations

import math

from airfl.privacy.bounds import bounds
from airfl.privacy.events import Composed, Event, FixedSizeSampled, Gaussian, repeated

# Shares of a message's noise that go to the sampled half of a variance-reduced estimator, tried one after the other.
SPLITS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 2 / 3, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999)
# At which they are compared.
DELTA = 1e-3

Batches = tuple[tuple[Event, int], ...]


def mini_batches(noise_multiplier: float, sample: int, samples: int, count: int = 1) -> Batches:
    """`count` releases, each of a fresh mini-batch: `sample` of `samples` records without replacement.

    noise_multiplier: noise on an entry over the largest contribution of one record.
    """
    return ((FixedSizeSampled(sample, samples, Gaussian(noise_multiplier)), count),)


def variance_reduced_batches(
    noise_std: float, clip: float, batch: int, samples: int, participations: int = 100
) -> Batches:
    """Releases of an SVRG or SAGA estimate with noise: A = the mean over b of m records of phi, ||phi|| <= 2 G; B = the
    mean over all m of psi, ||psi|| <= G (SoteriaFL, lemma 1; clip: G).

    A + B + xi follows from (A + xi_1, B + xi_2) with variances that add up to that of xi, for any split between them:
    A is a release on a sample, B one on everything. Every split gives a bound; of `SPLITS` the one is taken that is
    best for so many participations at delta = 1e-3, and it is kept. SAGA's table remembers who was in earlier batches;
    as in the paper, a batch counts as freshly drawn all the same.
    """
    if noise_std <= 0:
        return ((Gaussian(0.0), 1),)

    def batches(share: float) -> Batches:
        in_batch = Gaussian(math.sqrt(share) * noise_std * batch / (2 * clip))
        in_all = Gaussian(math.sqrt(1 - share) * noise_std * samples / clip)
        return (FixedSizeSampled(batch, samples, in_batch), 1), (in_all, 1)

    def cost(found: Batches) -> float:
        return bounds(repeated(Composed(found), participations), "replace_one", DELTA, lower=False).upper

    return min(map(batches, SPLITS), key=cost)
