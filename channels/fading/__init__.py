"""Fading: flat laws, frequency-selective models, recorded gains and user-defined channels, and their time variation.

    Rician(k=5.0)

All classes are available here by name, and imported on first use. A new built-in law is one module in this package and
one line in registry.py. User-defined fading derives from `FlatFading`, `SelectiveFading` or `OwnChannel` and is added
with `register`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from channels.fading.bounded import bounded
from channels.fading.gains import FlatParts, flat_parts, keep_within, rician_parts
from channels.fading.kinds import ChannelRequest, Fading, FlatFading, OwnChannel, SelectiveFading
from channels.fading.law import (
    FadeStatistics,
    FadingLaw,
    exceedance,
    fade_statistics,
    inverse_power,
    threshold_for,
)
from channels.fading.own import FunctionChannel, check_law, check_response, fading_of
from channels.fading.registry import FADING_LAWS, FADINGS
from channels.fading.replay import Recorded, Replay, VariableError, read_replay
from channels.fading.rician import rician_mean_square
from channels.fading.variation import VARIATIONS, Variation, doppler_hz, line_of_sight_cosines, line_of_sight_phase
from channels.part import lazily

if TYPE_CHECKING:  # for editors and type checkers, which cannot resolve `__getattr__`
    from channels.fading.exponential import Exponential as Exponential
    from channels.fading.fixed import Fixed as Fixed
    from channels.fading.nakagami import Nakagami as Nakagami
    from channels.fading.rayleigh import Rayleigh as Rayleigh
    from channels.fading.replay import Recorded as Recorded
    from channels.fading.rician import Rician as Rician
    from channels.selective.cdl import CdlA as CdlA
    from channels.selective.cdl import CdlB as CdlB
    from channels.selective.cdl import CdlC as CdlC
    from channels.selective.cdl import CdlD as CdlD
    from channels.selective.cdl import CdlE as CdlE
    from channels.selective.scenario import InfDh as InfDh
    from channels.selective.scenario import InfDl as InfDl
    from channels.selective.scenario import InfHh as InfHh
    from channels.selective.scenario import InfSh as InfSh
    from channels.selective.scenario import InfSl as InfSl
    from channels.selective.scenario import Rma as Rma
    from channels.selective.scenario import Uma as Uma
    from channels.selective.scenario import Umi as Umi
    from channels.selective.tapped_line import TappedLine as TappedLine
    from channels.selective.tdl import TdlA as TdlA
    from channels.selective.tdl import TdlB as TdlB
    from channels.selective.tdl import TdlC as TdlC
    from channels.selective.tdl import TdlD as TdlD
    from channels.selective.tdl import TdlE as TdlE

register = FADINGS.register
"""A class decorator that registers user-defined fading, so that settings can name it."""

__all__ = [
    "FADINGS",
    "FADING_LAWS",
    "VARIATIONS",
    "ChannelRequest",
    "FadeStatistics",
    "Fading",
    "FadingLaw",
    "FlatFading",
    "FlatParts",
    "FunctionChannel",
    "OwnChannel",
    "Recorded",
    "Replay",
    "SelectiveFading",
    "VariableError",
    "Variation",
    "bounded",
    "check_law",
    "check_response",
    "doppler_hz",
    "exceedance",
    "fade_statistics",
    "fading_of",
    "flat_parts",
    "inverse_power",
    "keep_within",
    "line_of_sight_cosines",
    "line_of_sight_phase",
    "read_replay",
    "register",
    "rician_mean_square",
    "rician_parts",
    "threshold_for",
]

__getattr__, __dir__ = lazily(__name__, __all__, FADINGS)
