"""Impairments and their surroundings built from the keys of [csi], for tests that vary one number."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from channels.csi import IMPAIRMENTS, ChannelInformation, Imperfections, Surroundings
from channels.csi import impair as apply_impairments
from channels.draws import Draw
from channels.frame import Frame
from channels.part import parameters_of

AROUND = tuple(one.name for one in fields(Surroundings))


def csi_of(**given: Any) -> tuple[Imperfections, Surroundings]:
    """Return the impairments with these parameters, given by key or else by name, and their surroundings."""
    around = Surroundings(**{key: given.pop(key) for key in AROUND if key in given})
    made = {}
    for name, kind in IMPAIRMENTS.items():
        own = {one.key or one.name: one.name for one in parameters_of(kind)}
        made[name] = kind(**{own[key]: given.pop(key) for key in list(given) if key in own})
    assert not given, given
    return Imperfections(**made), around  # type: ignore[arg-type]


def impair(csi: ChannelInformation, frame: Frame, draws: Mapping[str, Draw], **given: Any) -> ChannelInformation:
    """Return the CSI after all impairments with these parameters."""
    return apply_impairments(csi, *csi_of(**given), frame, draws)
