"""Sweeps: many points of one configuration, on this machine or a cluster."""
