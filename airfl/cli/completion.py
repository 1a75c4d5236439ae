"""What TAB offers: names of the project's own tables, and keys and values from the settings' schema; without torch.

A completer is handed the word so far and gives whole words with a line about each. Shells put a space behind the only
candidate: where more has to follow, as after `run.rounds=`, there are therefore always two.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from pathlib import Path
from typing import Any

Candidates = Iterable[tuple[str, str]]
Completer = Callable[[str], list[tuple[str, str]]]

ASKED = "_AIRFL_COMPLETE"
HEAD = "_AIRFL_COMPLETE_HEAD"
BREAKS = "=:"
"""Where bash, as it comes, breaks words (COMP_WORDBREAKS) that a command line has whole."""


def prepare(environment: MutableMapping[str, str]) -> None:
    """Where a shell asks, see to what Typer does not: see `_mend_bash_words`; a line about a candidate stays one line,
    which rich would fold at the width of the terminal."""
    if ASKED in environment:
        environment["COLUMNS"] = "10000"
    if environment.get(ASKED) == "complete_bash":
        _mend_bash_words(environment)


def _mend_bash_words(environment: MutableMapping[str, str]) -> None:
    """Put together what bash has taken apart: it asks about `pf` where `scheme.name=pf` is written, in three words.

    The words before the one asked about are whole again; what stands before its own last part goes to `HEAD`, since
    bash replaces only that part. Typer's script hands over the words a line each.
    """
    given = environment.get("COMP_WORDS", "")
    parts = given.split("\n") if "\n" in given else given.split(" ")
    at = int(environment.get("COMP_CWORD", "0"))
    parts = [*parts, ""][: at + 1]
    words: list[str] = []
    head = ""
    for before, part in zip(["", *parts], parts, strict=False):
        if words and part and (_breaks(part) or _breaks(before)):
            head, words[-1] = words[-1] + (part if _breaks(part) else ""), words[-1] + part
        else:
            head = ""
            words.append(part)
    last = words.pop()[len(head) :]
    if head.startswith("-"):  # --device=cu: for Typer the option is a word of its own
        option, _, head = head.partition("=")
        words.append(option)
    environment.update({"COMP_WORDS": "\n".join([*words, last]), "COMP_CWORD": str(len(words)), HEAD: head})


def _breaks(part: str) -> bool:
    return bool(part) and not part.strip(BREAKS)


def _completer(candidates: Callable[[str], Candidates]) -> Completer:
    """Only what goes on from the word so far, without the part of it that bash does not replace."""

    def complete(incomplete: str) -> list[tuple[str, str]]:
        head = os.environ.get(HEAD, "")
        whole = head + incomplete
        found = [(word, text) for word, text in candidates(whole) if word.startswith(whole)]
        # A line about a candidate is printed as rich's markup, where brackets would be styles.
        return [(word[len(head) :], text.replace("[", r"\[")) for word, text in found]

    return complete


def one_of(table: Callable[[], Iterable[str]]) -> Completer:
    """A name of a table."""
    return _completer(lambda incomplete: [(name, "") for name in table()])


def some_of(table: Callable[[], Mapping[str, str]]) -> Completer:
    """Names of a table, name -> what it is, with commas between them."""
    return _completer(lambda incomplete: _listed("", incomplete, table().items()))


def schemes() -> dict[str, str]:
    """The schemes' names."""
    from airfl.schemes.names import SCHEMES

    return dict.fromkeys(SCHEMES, "")


def figures() -> dict[str, str]:
    """The papers' figures, and what they show."""
    from airfl.report.paper.figures import FIGURES

    return {name: figure.title for name, figure in FIGURES.items()}


def costs() -> dict[str, str]:
    """What runs are compared at."""
    from airfl.analysis.results.equal_cost import COSTS

    return dict.fromkeys(COSTS, "")


def accountants() -> list[str]:
    """Those of a bare number's privacy."""
    from airfl.privacy.accountants import ACCOUNTANTS

    return list(ACCOUNTANTS)


def downloads() -> dict[str, str]:
    """The data sets that can be had."""
    from airfl.tasks.datasets import DATASETS
    from airfl.tasks.downloads.sources import DOWNLOADS

    return {name: DATASETS[name].text for name in DOWNLOADS}


def _listed(before: str, incomplete: str, values: Candidates) -> Candidates:
    """The last of values with commas between them; one that is there already is not offered again."""
    there, comma, _ = incomplete.removeprefix(before).rpartition(",")
    return [(f"{before}{there}{comma}{word}", text) for word, text in values if word not in there.split(",")]


@_completer
def configurations(incomplete: str) -> Candidates:
    """Shipped ones by name, TOML files, and folders."""
    from airfl.storage.resources import configurations as shipped
    from airfl.storage.resources import title

    return [*((name, title(file)) for name, file in shipped().items()), *_files(incomplete)]


def _files(incomplete: str) -> Candidates:
    """Settings files and folders that go on from this; of an only folder what is in it."""
    folder, slash, start = incomplete.rpartition("/")
    try:
        entries = sorted(Path(folder + slash or ".").expanduser().iterdir())
    except (OSError, RuntimeError):  # RuntimeError: of a user without a home
        return []
    found = [(f"{folder}{slash}{entry.name}{'/' * entry.is_dir()}", "") for entry in entries if _wanted(entry, start)]
    if len(found) == 1 and found[0][0].endswith("/") and found[0][0] != incomplete:
        return _files(found[0][0])
    return found


def _wanted(entry: Path, start: str) -> bool:
    visible = entry.name.startswith(start) and (start.startswith(".") or not entry.name.startswith("."))
    return visible and (entry.suffix == ".toml" or entry.is_dir())


@_completer
def settings(incomplete: str) -> Candidates:
    """KEY=VALUE."""
    return _settings(incomplete, several=False)


@_completer
def axes(incomplete: str) -> Candidates:
    """KEY=VALUE,VALUE,..."""
    return _settings(incomplete, several=True)


def keys() -> dict[str, str]:
    """Every section.key, and what it is."""
    sections = _schema()
    return {f"{name}.{key}": one["about"] for name, section in sections.items() for key, one in section.items()}


def _settings(incomplete: str, several: bool) -> Candidates:
    sections = _schema()
    key, equals, _ = incomplete.partition("=")
    section, dot, _ = key.partition(".")
    if not dot:
        names = [name for name in sections if name.startswith(section)]
        if len(names) != 1:
            return [(f"{name}.", f"{len(sections[name])} settings") for name in names]
        section = names[0]
    found = {f"{section}.{name}": one for name, one in sections.get(section, {}).items()}
    if equals:
        values = found.get(key, {}).get("values", ())
        ready = [(value, "") for value in values]
        return _listed(f"{key}=", incomplete, ready) if several else [(f"{key}={value}", "") for value, _ in ready]
    matching = {name: one for name, one in found.items() if name.startswith(key)}
    if len(matching) == 1:
        [(name, one)] = matching.items()
        shown = one["values"] if len(one["values"]) > 1 else ("", *(one["values"] or ("...",)))
        return [(f"{name}={value}", one["about"]) for value in shown]
    return [(f"{name}=", one["about"]) for name, one in matching.items()]


@functools.cache
def _schema() -> dict[str, dict[str, dict[str, Any]]]:
    """Section -> key -> about: its description; values: those allowed, else the default where it is plain."""
    from airfl.config import Settings
    from airfl.config.parts import section_of

    schema = Settings.model_json_schema()
    return {
        name: {
            key: {"about": one.get("description", ""), "values": _values(one)}
            for key, one in section_of(schema, name)["properties"].items()
        }
        for name in schema["properties"]
    }


def _values(setting: Mapping[str, Any]) -> tuple[str, ...]:
    values: list[str] = []
    for one in (setting, *setting.get("anyOf", ())):
        values += [str(value) for value in one.get("enum", ())]
        values += ["true", "false"] if one.get("type") == "boolean" else []
    default = setting.get("default")
    return tuple(values) or ((str(default),) if isinstance(default, int | float | str) else ())
