"""Shell completion: names from the project's tables, and keys and values from the settings' schema, without torch.

A completer takes the word typed so far and returns whole words, each with a line of description. Shells append a space
to an only candidate, so two are offered wherever more has to follow, as after `run.rounds=`.
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
"""Characters at which bash by default breaks words (COMP_WORDBREAKS) that are whole on the command line."""


def prepare(environment: MutableMapping[str, str]) -> None:
    """Adapt the environment for completion requests in ways that Typer does not.

    Words that bash has split are joined (see `_mend_bash_words`), and a description stays one line, which rich would
    otherwise fold at the width of the terminal.
    """
    if ASKED in environment:
        environment["COLUMNS"] = "10000"
    if environment.get(ASKED) == "complete_bash":
        _mend_bash_words(environment)


def _mend_bash_words(environment: MutableMapping[str, str]) -> None:
    """Join the words that bash has split: for `scheme.name=pf`, it passes three words and asks about `pf`.

    The words before the one to complete become whole again. Of that one, the text before its last part goes to `HEAD`,
    since bash replaces only the last part. Typer's script passes one word per line.
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
    if head.startswith("-"):  # as in --device=cu, where Typer expects the option as a separate word
        option, _, head = head.partition("=")
        words.append(option)
    environment.update({"COMP_WORDS": "\n".join([*words, last]), "COMP_CWORD": str(len(words)), HEAD: head})


def _breaks(part: str) -> bool:
    return bool(part) and not part.strip(BREAKS)


def _completer(candidates: Callable[[str], Candidates]) -> Completer:
    """Return a completer that offers the candidates that extend the word, without the part that bash keeps."""

    def complete(incomplete: str) -> list[tuple[str, str]]:
        head = os.environ.get(HEAD, "")
        whole = head + incomplete
        found = [(word, text) for word, text in candidates(whole) if word.startswith(whole)]
        # Descriptions are printed as rich markup, in which brackets would be styles.
        return [(word[len(head) :], text.replace("[", r"\[")) for word, text in found]

    return complete


def one_of(table: Callable[[], Iterable[str]]) -> Completer:
    """Return a completer for one name of a table."""
    return _completer(lambda incomplete: [(name, "") for name in table()])


def some_of(table: Callable[[], Mapping[str, str]]) -> Completer:
    """Return a completer for comma-separated names of a table, which maps each name to its description."""
    return _completer(lambda incomplete: _listed("", incomplete, table().items()))


def schemes() -> dict[str, str]:
    """Return the names of the schemes."""
    from airfl.schemes.names import SCHEMES

    return dict.fromkeys(SCHEMES, "")


def figures() -> dict[str, str]:
    """Return the papers' figures with their titles."""
    from airfl.report.paper.figures import FIGURES

    return {name: figure.title for name, figure in FIGURES.items()}


def costs() -> dict[str, str]:
    """Return the costs at which runs are compared."""
    from airfl.analysis.results.equal_cost import COSTS

    return dict.fromkeys(COSTS, "")


def accountants() -> list[str]:
    """Return the accountants for a bare noise multiplier."""
    from airfl.privacy.accountants import ACCOUNTANTS

    return list(ACCOUNTANTS)


def downloads() -> dict[str, str]:
    """Return the data sets that can be downloaded, with their descriptions."""
    from airfl.learning.tasks.datasets import DATASETS
    from airfl.learning.tasks.downloads.sources import DOWNLOADS

    return {name: DATASETS[name].text for name in DOWNLOADS}


def _listed(before: str, incomplete: str, values: Candidates) -> Candidates:
    """Return candidates for the last of comma-separated values; those already listed are not offered again."""
    there, comma, _ = incomplete.removeprefix(before).rpartition(",")
    return [(f"{before}{there}{comma}{word}", text) for word, text in values if word not in there.split(",")]


@_completer
def configurations(incomplete: str) -> Candidates:
    """Return candidates for a configuration: names of shipped ones, TOML files, and folders."""
    from airfl.storage.resources import configurations as shipped
    from airfl.storage.resources import title

    return [*((name, title(file)) for name, file in shipped().items()), *_files(incomplete)]


def _files(incomplete: str) -> Candidates:
    """Return settings files and folders that extend the path; if only one folder does, return its contents."""
    folder, slash, start = incomplete.rpartition("/")
    try:
        entries = sorted(Path(folder + slash or ".").expanduser().iterdir())
    except (OSError, RuntimeError):  # RuntimeError: the user has no home folder
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
    """Return candidates for KEY=VALUE."""
    return _settings(incomplete, several=False)


@_completer
def axes(incomplete: str) -> Candidates:
    """Return candidates for KEY=VALUE,VALUE,..."""
    return _settings(incomplete, several=True)


def keys() -> dict[str, str]:
    """Return every section.key with its description."""
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
    """Return, by section and key, "about" (the description) and "values" (allowed values, else a plain default)."""
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
