"""LDP-SVRG: perturbed SVRG gradients, not compressed (SoteriaFL appendix A, a baseline)."""

from airfl.schemes.soteriafl_parts import scheme

SCHEME = scheme("ldp-svrg", "LDP-SVRG", estimator="svrg", compression="none")
