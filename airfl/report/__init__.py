"""What is shown of runs: summaries, tables, figures. All are made from traces alone."""
