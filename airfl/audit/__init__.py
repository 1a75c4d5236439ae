"""Attacks on runs of one's own: lower bounds on epsilon, found by looking at what a run really broadcasts."""
