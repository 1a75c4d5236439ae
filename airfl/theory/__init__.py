"""The convergence theorems of the four papers as numbers, for the settings of a run."""
