"""Engines: ways of computing the local SGD of a chunk of devices, which all give the same numbers."""
