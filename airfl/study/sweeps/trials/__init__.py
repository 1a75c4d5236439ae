"""The trials of a search, kept in Optuna's studies, which several clients may share."""
