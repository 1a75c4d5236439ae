"""Models that are more than a list of layers, in torch."""
