"""Plays in plain text, split into the speeches of each speaker.

A speech is a paragraph whose first line is only a speech prefix (`Ham.`, `HAMLET.`, `THESEUS`), with the paragraphs
that follow until the next prefix or heading. Left out are everything before the first act, headings, stage directions
in brackets or in separate paragraphs, and speeches of several persons together (`ALL.`, `Alb. and Corn.`). If most
prefixes of a play are in capitals, only lines in capitals count as prefixes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

LONGEST_PREFIX = 40
JOINERS = ("of", "the", "de", "le", "and", "&c")

_BEGINNING = re.compile(r"^[ \t]*(?:ACT|Act|PROLOGUE|INDUCTION)\b", re.MULTILINE)
_HEADING = re.compile(r"(?:ACT|SCENE|PROLOGUE|EPILOGUE|INDUCTION|THE END|END OF|DRAMATIS)\b|[IVX]+\.?$", re.IGNORECASE)
# Directions in brackets of either kind (the texts have some typing errors). One that is not closed ends with its
# paragraph; one on separate lines is removed with these lines. An exit may end a line without brackets.
_DIRECTION = re.compile(
    r"^[ \t]*[\[{][^\[\]{}]{,600}\][ \t]*\n"
    r"|[\[{](?:[^\[\]{}\n]|\n(?![ \t]*\n)){,600}\]?"
    r"|(?<=[.!?])[ \t]*(?:Exit|Exeunt)\b[^\n]*",
    re.MULTILINE,
)
_OPEN_DIRECTION = re.compile(r"(?:Re-)?(?:enter|exit|exeunt|alarum|flourish|sennet|song|here follows)\b", re.IGNORECASE)
_SEVERAL = re.compile(r"\b(?:ALL|BOTH|AND|OTHERS|SONG)\b|[&,]|\w{4}\. ")


def speeches_of(text: str) -> Iterator[tuple[str, str]]:
    """Yield (speaker, speech) in the order of the play, with the line breaks of the text; nothing if it is no play.

    Speakers are named by their prefix in upper case without the full stop. A speaker whose prefix is spelled in two
    ways counts as two.
    """
    paragraphs = _paragraphs(text)
    names = _names(paragraphs)
    speaker, speech = "", list[str]()
    for lines in [*paragraphs, ["THE END"]]:
        if lines[0] in names or _HEADING.match(lines[0]):
            if speech and speaker and not _SEVERAL.search(speaker):
                yield speaker, "\n".join(speech)
            speaker, speech = (_name(lines[0]), lines[1:]) if lines[0] in names else ("", [])
        elif not _OPEN_DIRECTION.match(lines[0]):
            speech += lines


def _paragraphs(text: str) -> list[list[str]]:
    """Return the stripped lines of each paragraph after the front matter, without bracketed directions."""
    text = text.replace("\r\n", "\n")
    beginning = _BEGINNING.search(text)
    if beginning is None:
        return []
    spoken = _DIRECTION.sub("", text[beginning.start() :])
    blocks = (block.split("\n") for block in re.split(r"\n[ \t]*\n", spoken))
    return [lines for block in blocks if (lines := [line.strip() for line in block if line.strip()])]


def _names(paragraphs: list[list[str]]) -> set[str]:
    """Return the lines that are prefixes: first lines of paragraphs that, unless in capitals, have a second line
    somewhere."""
    first = {lines[0] for lines in paragraphs if _name(lines[0])}
    before_speech = [lines[0] for lines in paragraphs if len(lines) > 1 and lines[0] in first]
    in_capitals = [line for line in before_speech if line == line.upper()]
    if 2 * len(in_capitals) > len(before_speech):
        return {line for line in first if line == line.upper()}
    return set(before_speech)


def _name(line: str) -> str:
    """Return the speaker if the line may be a prefix, otherwise an empty string."""
    if len(line) > LONGEST_PREFIX or _HEADING.match(line) or not re.fullmatch(r"[A-Za-z\d&][A-Za-z\d&,.' -]*", line):
        return ""
    words = line.rstrip(".").split()
    ended = line.endswith(".") or (line == line.upper() and len(line) > 1)
    capitals = all(word in JOINERS or not word[0].islower() for word in words)
    return " ".join(words).upper() if words and ended and capitals and re.search("[A-Za-z]", line) else ""
