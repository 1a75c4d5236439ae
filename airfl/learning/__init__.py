"""Local training: the computation of a chunk of devices in a round."""
