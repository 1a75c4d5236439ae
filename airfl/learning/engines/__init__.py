"""Engines: implementations of local SGD for a chunk of devices, whose results agree up to rounding."""
