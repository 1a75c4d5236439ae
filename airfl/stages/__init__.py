"""Encoder stages: what is done to an update before it is sent, and undone after. One file each, chained in order."""

from airfl.stages.clip import Clip
from airfl.stages.masks import kept_entries
from airfl.stages.rand_k import RandK
from airfl.stages.stage import Batch, Coder, MessageBound, Stage, bound_after, open_encoder

__all__ = [
    "Batch",
    "Clip",
    "Coder",
    "MessageBound",
    "RandK",
    "Stage",
    "bound_after",
    "kept_entries",
    "open_encoder",
]
