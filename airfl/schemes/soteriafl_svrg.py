"""SoteriaFL-SVRG: variance reduced by a snapshot, shifted compression (SoteriaFL algorithm 3, option II)."""

from airfl.schemes.soteriafl_parts import scheme

SCHEME = scheme("soteriafl-svrg", "SoteriaFL-SVRG", estimator="svrg", compression="shifted")
