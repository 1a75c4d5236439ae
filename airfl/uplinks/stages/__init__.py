"""Encoder stages: transforms applied to an update before it is sent and inverted after decoding. One file each; stages
are chained in order."""

from airfl.uplinks.stages.age_top_k import AgeAwareTopK
from airfl.uplinks.stages.clip import Clip
from airfl.uplinks.stages.device_noise import of_each_device
from airfl.uplinks.stages.feedback import ErrorFeedback, ShiftedCompression, shift_step
from airfl.uplinks.stages.gaussian_noise import GaussianNoise
from airfl.uplinks.stages.held import held_to_bound
from airfl.uplinks.stages.masks import kept_entries
from airfl.uplinks.stages.rand_k import PerDeviceRandK, RandK
from airfl.uplinks.stages.stage import Batch, Coder, MessageBound, Round, Stage, bound_after, open_encoder
from airfl.uplinks.stages.top_k import PerDeviceTopK, PublicTopK

__all__ = [
    "AgeAwareTopK",
    "Batch",
    "Clip",
    "Coder",
    "ErrorFeedback",
    "GaussianNoise",
    "MessageBound",
    "PerDeviceRandK",
    "PerDeviceTopK",
    "PublicTopK",
    "RandK",
    "Round",
    "ShiftedCompression",
    "Stage",
    "bound_after",
    "held_to_bound",
    "kept_entries",
    "of_each_device",
    "open_encoder",
    "shift_step",
]
