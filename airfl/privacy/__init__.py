"""Privacy: what papers claim, what holds for one round, what holds for a run. Conventions in ledger.py."""
