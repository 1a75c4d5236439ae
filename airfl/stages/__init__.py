"""Encoder stages: transforms applied to an update before it is sent and inverted after decoding. One file each; stages
are chained in order."""

from airfl.stages.clip import Clip
from airfl.stages.feedback import ErrorFeedback, ShiftedCompression, shift_step
from airfl.stages.gaussian_noise import GaussianNoise
from airfl.stages.masks import kept_entries
from airfl.stages.own import held_to_bound
from airfl.stages.rand_k import OwnRandK, RandK
from airfl.stages.stage import Batch, Coder, MessageBound, Round, Stage, bound_after, open_encoder
from airfl.stages.top_k import OwnTopK, PublicTopK

__all__ = [
    "Batch",
    "Clip",
    "Coder",
    "ErrorFeedback",
    "GaussianNoise",
    "MessageBound",
    "OwnRandK",
    "OwnTopK",
    "PublicTopK",
    "RandK",
    "Round",
    "ShiftedCompression",
    "Stage",
    "bound_after",
    "held_to_bound",
    "kept_entries",
    "open_encoder",
    "shift_step",
]
