"""Many runs: comparisons, sweeps, tuning, and checks of user-defined parts on short runs."""
