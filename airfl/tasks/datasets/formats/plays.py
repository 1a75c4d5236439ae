"""Plays in plain text, cut into what each person says.

Taken: paragraphs whose first line is nothing but a speech prefix (`Ham.`, `HAMLET.`, `THESEUS`) and the paragraphs that
follow until the next prefix or heading. Left out: everything before the first act, headings, stage directions in
brackets or in paragraphs of their own, and what several persons say together (`ALL.`, `Alb. and Corn.`), which is
nobody's. Where most prefixes of a play are in capitals, only lines in capitals are taken for one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

LONGEST_PREFIX = 40
JOINERS = ("of", "the", "de", "le", "and", "&c")

_BEGINNING = re.compile(r"^[ \t]*(?:ACT|Act|PROLOGUE|INDUCTION)\b", re.MULTILINE)
_HEADING = re.compile(r"(?:ACT|SCENE|PROLOGUE|EPILOGUE|INDUCTION|THE END|END OF|DRAMATIS)\b|[IVX]+\.?$", re.IGNORECASE)
# In brackets of either kind (the texts have some typing errors); one that is not closed ends with its paragraph. One
# that has lines of its own takes them with it. An exit may also stand at the end of a line, without brackets.
_DIRECTION = re.compile(
    r"^[ \t]*[\[{][^\[\]{}]{,600}\][ \t]*\n"
    r"|[\[{](?:[^\[\]{}\n]|\n(?![ \t]*\n)){,600}\]?"
    r"|(?<=[.!?])[ \t]*(?:Exit|Exeunt)\b[^\n]*",
    re.MULTILINE,
)
_OPEN_DIRECTION = re.compile(r"(?:Re-)?(?:enter|exit|exeunt|alarum|flourish|sennet|song|here follows)\b", re.IGNORECASE)
_SEVERAL = re.compile(r"\b(?:ALL|BOTH|AND|OTHERS|SONG)\b|[&,]|\w{4}\. ")


def speeches_of(text: str) -> Iterator[tuple[str, str]]:
    """(speaker, speech) in the play's order, line breaks as in the text; nothing for a text that is not a play.

    Speakers are named by their prefixes in upper case without the full stop; one whose prefix is spelt in two ways is
    two.
    """
    paragraphs = _paragraphs(text)
    names = _names(paragraphs)
    speaker, said = "", list[str]()
    for lines in [*paragraphs, ["THE END"]]:
        if lines[0] in names or _HEADING.match(lines[0]):
            if said and speaker and not _SEVERAL.search(speaker):
                yield speaker, "\n".join(said)
            speaker, said = (_name(lines[0]), lines[1:]) if lines[0] in names else ("", [])
        elif not _OPEN_DIRECTION.match(lines[0]):
            said += lines


def _paragraphs(text: str) -> list[list[str]]:
    """Lines of each paragraph after the front matter, stripped, without bracketed directions and empty lines."""
    text = text.replace("\r\n", "\n")
    beginning = _BEGINNING.search(text)
    if beginning is None:
        return []
    spoken = _DIRECTION.sub("", text[beginning.start() :])
    blocks = (block.split("\n") for block in re.split(r"\n[ \t]*\n", spoken))
    return [lines for block in blocks if (lines := [line.strip() for line in block if line.strip()])]


def _names(paragraphs: list[list[str]]) -> set[str]:
    """The lines that are prefixes: first of a paragraph, with something behind it somewhere, unless in capitals."""
    first = {lines[0] for lines in paragraphs if _name(lines[0])}
    before_speech = [lines[0] for lines in paragraphs if len(lines) > 1 and lines[0] in first]
    in_capitals = [line for line in before_speech if line == line.upper()]
    if 2 * len(in_capitals) > len(before_speech):
        return {line for line in first if line == line.upper()}
    return set(before_speech)


def _name(line: str) -> str:
    """The speaker whose prefix the line may be; empty if it cannot be one."""
    if len(line) > LONGEST_PREFIX or _HEADING.match(line) or not re.fullmatch(r"[A-Za-z\d&][A-Za-z\d&,.' -]*", line):
        return ""
    words = line.rstrip(".").split()
    ended = line.endswith(".") or (line == line.upper() and len(line) > 1)
    capitals = all(word in JOINERS or not word[0].islower() for word in words)
    return " ".join(words).upper() if words and ended and capitals and re.search("[A-Za-z]", line) else ""
