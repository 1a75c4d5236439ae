"""Fully connected networks by compiled C, one device after another with its parameters in the processor's cache."""

from airfl.learning.dense.network import DenseNetwork, DenseSamples, dense_network_of

__all__ = ["DenseNetwork", "DenseSamples", "dense_network_of"]
