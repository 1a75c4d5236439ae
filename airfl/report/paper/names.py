"""Names of keys, schemes and groups in figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airfl.analysis.results.pool import LINK, SCHEME
from airfl.analysis.results.result import Group, Results, plain
from airfl.errors import UserError

# Components of scheme names that are not written in capitals.
WORDS = {
    "fedavg": "FedAvg",
    "fed": "Fed",
    "cpsgd": "cpSGD",
    "soteriafl": "SoteriaFL",
    "randk": "randk",
    "topk": "topk",
}


@dataclass(frozen=True)
class Key:
    """The names of a setting in figures.

    Attributes:
        symbol: Symbol in a legend.
        axis: Axis label.
        unit: Unit in a legend, with a leading space.
        linear: Whether the axis is always linear.
    """

    symbol: str
    axis: str
    unit: str = ""
    linear: bool = False


KEYS = {
    "scheme.ratio": Key("p", "compression ratio p", linear=True),
    "privacy.epsilon": Key("ε", "privacy budget ε, as claimed"),
    "power.max_snr_db": Key("SNR", "maximum SNR (dB)", " dB", linear=True),
    "local.learning_rate": Key("η", "local learning rate η"),
    "server.learning_rate": Key("server step", "server's learning rate"),
    "local.clip_norm": Key("C", "clip norm C"),
    "local.steps": Key("τ", "local steps τ"),
    "run.devices": Key("N", "devices N"),
    "run.selected": Key("r", "devices a round r"),
    "antennas.count": Key("antennas", "receive antennas"),
}


def key_of(key: str) -> Key:
    """Return the names of any dotted key."""
    words = key.rpartition(".")[2].replace("_", " ")
    return KEYS.get(key, Key(words, words))


def scheme_name(name: str) -> str:
    """Return the name of a scheme as the papers write it: PFELS, WFL-P, Fed-SMP-randk."""
    return "-".join(WORDS.get(part, part.upper()) for part in name.split("-"))


def group_names(groups: Sequence[Group], axes: Sequence[str]) -> list[str]:
    """Return names that distinguish the groups: label, scheme, and values of the axes not determined by the label.

    The scheme is included if there are several, except for the rows of one comparison, whose labels suffice.
    """
    labels = {group.label for group in groups}
    distinguishing = [
        key for key in axes if len({(group.label, plain(group.values.get(key))) for group in groups}) > len(labels)
    ]
    several = len({group.scheme for group in groups}) > 1
    pooled = len({run.source for group in groups for run in group.runs}) > 1
    names = []
    for group in groups:
        scheme = scheme_name(group.scheme)
        if not group.label:
            kind = [scheme] if several or SCHEME in axes else []
        elif SCHEME in distinguishing or (several and pooled and not named(group)):
            kind = [group.label, scheme]
        else:
            kind = [group.label]
        known = [key for key in distinguishing if key != SCHEME and group.values.get(key) is not None]
        names.append(", ".join([*kind, *(value_text(key, group.values) for key in known)]) or scheme)
    return names


def named(group: Group) -> bool:
    """Return whether the label of the group contains the name of its scheme."""
    return any(name.casefold() in group.label.casefold() for name in (group.scheme, scheme_name(group.scheme)))


def value_text(key: str, values: Mapping[str, Any]) -> str:
    """Return the text of a value in a legend: p = 0.3."""
    known, value = key_of(key), values.get(key)
    text = scheme_name(value) if key == SCHEME and isinstance(value, str) else plain(value)
    if key == LINK:
        return f"{text} link"
    return text if key == SCHEME else f"{known.symbol} = {'∞' if text == 'inf' else text}{known.unit}"


def missing_data(needs: str, results: Results, remedy: str) -> UserError:
    """Return the error for a figure whose data is missing: what it needs, what these runs vary, and the remedy."""
    runs, axes = results.runs, results.axes
    counts = {key: len({plain(run.values[key]) for run in runs if run.values.get(key) is not None}) for key in axes}
    swept = [f"{key} ({count} values)" for key, count in counts.items() if count > 1]
    labels = list(dict.fromkeys(group.label for group in results.groups if group.label))
    rows = [f"{len(labels)} rows"] if len(labels) > 1 else []
    varied = ", ".join([*rows, *swept]) or "no setting"
    return UserError(f"needs {needs}; these runs vary {varied}; {remedy}")
