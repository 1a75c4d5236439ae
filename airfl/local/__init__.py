"""Local training: what a chunk of devices computes in a round."""
