"""SoteriaFL-GD: full local gradients, shifted compression (SoteriaFL algorithm 3, option I with b = m)."""

from airfl.schemes.soteriafl_parts import scheme

SCHEME = scheme("soteriafl-gd", "SoteriaFL-GD", estimator="gd", compression="shifted")
