"""What is computed of runs: link budgets and privacy without training, audits, results over seeds, and timings."""
