"""Sweeps: runs at many points of a configuration, on this machine or a cluster."""
