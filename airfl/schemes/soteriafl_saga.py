"""SoteriaFL-SAGA: variance reduced by a table of gradients, shifted compression (SoteriaFL algorithm 3, option III)."""

from airfl.schemes.soteriafl_parts import scheme

SCHEME = scheme("soteriafl-saga", "SoteriaFL-SAGA", estimator="saga", compression="shifted")
