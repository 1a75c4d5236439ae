"""Frequency-selective fading models. To add one, add a module here and a line in `channels.fading.registry`."""

from channels.fading.kinds import SelectiveFading
from channels.fading.registry import SELECTIVE_MODELS
from channels.selective.request import SelectiveRequest, SelectiveResponse, check

__all__ = ["SELECTIVE_MODELS", "SelectiveFading", "SelectiveRequest", "SelectiveResponse", "check"]
