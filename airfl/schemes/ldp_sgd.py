"""LDP-SGD: perturbed mini-batch gradients, not compressed (SoteriaFL appendix A, a baseline)."""

from airfl.schemes.soteriafl_parts import scheme

SCHEME = scheme("ldp-sgd", "LDP-SGD", estimator="sgd", compression="none")
