"""Local training: all devices of a chunk in one batched computation."""
