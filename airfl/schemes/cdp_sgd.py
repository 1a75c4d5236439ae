"""CDP-SGD: perturbed mini-batch gradients, compressed directly (SoteriaFL algorithm 1)."""

from airfl.schemes.soteriafl_parts import scheme

SCHEME = scheme("cdp-sgd", "CDP-SGD", estimator="sgd", compression="direct")
