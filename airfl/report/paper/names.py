"""What keys, schemes and groups are called in a figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airfl.errors import UserError
from airfl.results.collect import Group, Results, plain

SCHEME = "scheme.name"
# Parts of schemes' names that are not written in capitals.
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
    """A setting: its symbol, the text at an axis, its unit in a legend, whether the axis is always linear."""

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
    """Of any dotted key."""
    words = key.rpartition(".")[2].replace("_", " ")
    return KEYS.get(key, Key(words, words))


def scheme_name(name: str) -> str:
    """As the papers write it: PFELS, WFL-P, Fed-SMP-randk."""
    return "-".join(WORDS.get(part, part.upper()) for part in name.split("-"))


def group_names(groups: Sequence[Group], axes: Sequence[str]) -> list[str]:
    """What tells these groups from one another: label, scheme, values of the axes that a label leaves open."""
    labels = {group.label for group in groups}
    telling = [key for key in axes if len({(one.label, plain(one.values.get(key))) for one in groups}) > len(labels)]
    names = []
    for group in groups:
        kind = group.label or (scheme_name(str(group.values[SCHEME])) if SCHEME in telling else "")
        values = [value_text(key, group.values) for key in telling if key != SCHEME or group.label]
        names.append(", ".join(filter(None, [kind, *values])) or scheme_name(group.scheme))
    return names


def value_text(key: str, values: Mapping[str, Any]) -> str:
    """A key's value in a legend: p = 0.3."""
    known, value = key_of(key), values.get(key)
    text = scheme_name(value) if key == SCHEME and isinstance(value, str) else plain(value)
    return text if key == SCHEME else f"{known.symbol} = {'∞' if text == 'inf' else text}{known.unit}"


def lacking(needs: str, results: Results, mend: str) -> UserError:
    """What a figure needs, what these runs vary, how to mend it."""
    counts = {key: len({plain(run.values.get(key)) for run in results.runs}) for key in results.axes}
    swept = [f"{key} ({count} values)" for key, count in counts.items() if count > 1]
    labels = list(dict.fromkeys(group.label for group in results.groups if group.label))
    rows = [f"{len(labels)} rows"] if len(labels) > 1 else []
    varied = ", ".join([*rows, *swept]) or "no setting"
    return UserError(f"needs {needs}; these vary {varied}; {mend}")
