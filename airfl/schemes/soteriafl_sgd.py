"""SoteriaFL-SGD: mini-batch gradients, shifted compression (SoteriaFL algorithm 3, option I)."""

from airfl.schemes.soteriafl_parts import scheme

SCHEME = scheme("soteriafl-sgd", "SoteriaFL-SGD", estimator="sgd", compression="shifted")
