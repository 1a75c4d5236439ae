"""Frequency-selective fading. A new model is one file beside these, or one function, and one line in the table."""

from functools import partial

from channels.selective import sionna_bridge, tapped_line
from channels.selective.request import SelectiveModel, SelectiveRequest, Variation, check

_ROUND_BY_ROUND: tuple[Variation, ...] = ("independent", "constant")


def _tdl(profile: str, table: int) -> SelectiveModel:
    source = f"3GPP TR 38.901, clause 7.7.2, table 7.7.2-{table}"
    return SelectiveModel(partial(sionna_bridge.respond_tdl, profile), source, True, False, _ROUND_BY_ROUND)


def _cdl(profile: str, table: int) -> SelectiveModel:
    source = f"3GPP TR 38.901, clause 7.7.1, table 7.7.1-{table}"
    return SelectiveModel(partial(sionna_bridge.respond_cdl, profile), source, True, False, _ROUND_BY_ROUND, True)


def _scenario(name: sionna_bridge.Scenario) -> SelectiveModel:
    source = f"3GPP TR 38.901, clause 7.5, table 7.5-6, {name}"
    return SelectiveModel(partial(sionna_bridge.respond_scenario, name), source, True, True, _ROUND_BY_ROUND, True)


SELECTIVE_MODELS: dict[str, SelectiveModel] = {
    "tapped-line": SelectiveModel(
        respond=tapped_line.respond,
        source="uncorrelated scattering (Bello 1963) on equal taps, Clarke's Doppler spectrum (1968)",
        needs_sionna=False,
        needs_positions=False,
        variations=("independent", "constant", "jakes"),
    ),
    "tdl-a": _tdl("A", 1),
    "tdl-b": _tdl("B", 2),
    "tdl-c": _tdl("C", 3),
    "tdl-d": _tdl("D", 4),
    "tdl-e": _tdl("E", 5),
    "cdl-a": _cdl("A", 1),
    "cdl-b": _cdl("B", 2),
    "cdl-c": _cdl("C", 3),
    "cdl-d": _cdl("D", 4),
    "cdl-e": _cdl("E", 5),
    "umi": _scenario("UMi"),
    "uma": _scenario("UMa"),
    "rma": _scenario("RMa"),
}

WITH_LINE_OF_SIGHT = frozenset(("tdl-d", "tdl-e", "cdl-d", "cdl-e"))
"""Profiles whose first path is a line of sight; devices in a cell may have one in umi, uma and rma."""

__all__ = ["SELECTIVE_MODELS", "WITH_LINE_OF_SIGHT", "SelectiveModel", "SelectiveRequest", "check"]
