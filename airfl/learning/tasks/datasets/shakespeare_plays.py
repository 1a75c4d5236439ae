"""Shakespeare's plays in plain text, split by speaker: predict the next character from 80, as in LEAF's Shakespeare.

A speaker is (play, name); `formats.plays` defines what counts as speech. As in LEAF, the speeches of a speaker are
joined by blanks in the order of the play. Every fifth position is used, since neighbouring windows share all but one
character; the 37 plays then have 0.81 million windows, 77 MB with targets and speakers, instead of five times that. The
first 80% of a speaker's characters are for training and the rest for testing, each cut into windows separately: the
first test window begins where the training text ends, so that none of its characters, input or target, occurs in
training. LEAF separates the two in the same way, by the length of a window. Speakers with fewer than two speeches
(LEAF's rule) or too few characters for one test window are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from airfl.errors import UserError
from airfl.learning.tasks.datasets.dataset import Dataset
from airfl.learning.tasks.datasets.formats.characters import VOCABULARY, WINDOW, encode
from airfl.learning.tasks.datasets.formats.files import OPENERS, read_at_most, reading
from airfl.learning.tasks.datasets.formats.plays import speeches_of
from airfl.learning.tasks.datasets.raw import RawData

ENDING = "_gut.txt"
STRIDE = 5
SPEECHES = 2
TEST_PART = 5  # a fifth
FEWEST_CHARACTERS = TEST_PART * (WINDOW + 1)
LARGEST_TEXT = 4 << 20  # a play has 0.1 to 0.2 million characters

Windows = tuple[NDArray[np.uint8], NDArray[np.int64]]


class ShakespearePlays(Dataset):
    """Shakespeare's plays in plain text, split by speaker: predict the next character from the last 80."""

    name = "shakespeare-plays"
    folders = ("shakespeare-plays", "shakespeare")
    input_shape = (80,)
    classes = 90
    training_samples = 652_703
    text = "the same from plain texts of the plays, at every fifth position"
    licence = "the plays are in the public domain; Project Gutenberg's edition, under its terms"
    writers = "its own files"
    kind = "text"
    cached = True

    def files(self, folder: Path) -> list[Path]:
        """Return the texts NAME_gut.txt, plain or compressed, sorted by name; empty if there are none."""
        by_name: dict[str, Path] = {}
        for suffix in OPENERS:
            for path in folder.glob(f"*{ENDING}{suffix}"):
                if path.is_file():
                    by_name.setdefault(path.name.removesuffix(suffix), path)
        return [by_name[name] for name in sorted(by_name)]

    def load(self, folder: Path) -> RawData:
        """Load the windows of all speakers, numbered by text and appearance; raises UserError for invalid texts."""
        train: list[Windows] = []
        test: list[Windows] = []
        for text in speakers_texts(self.files(folder)):
            ids = encode(text)
            cut = len(ids) - len(ids) // TEST_PART
            train.append(_windows(ids[:cut]))
            test.append(_windows(ids[cut:]))
        if not train:
            raise UserError(
                f"{folder}: no speaker with {SPEECHES} speeches and {FEWEST_CHARACTERS} characters in the texts; use "
                "plays that have the speakers' names on separate lines"
            )
        return RawData(*_joined(train), *_joined(test), VOCABULARY, (), (), _writers(train), _writers(test))


def speakers_texts(paths: list[Path]) -> Iterator[str]:
    """Yield the text of each speaker, without speakers whose text is too short."""
    for path in paths:
        by_speaker: dict[str, list[str]] = {}
        for speaker, speech in speeches_of(_read(path)):
            by_speaker.setdefault(speaker, []).append(speech)
        for speeches in by_speaker.values():
            text = " ".join(" ".join(speeches).split())
            if len(speeches) >= SPEECHES and len(text) >= FEWEST_CHARACTERS:
                yield text


def _read(path: Path) -> str:
    with reading(path) as file:
        content = read_at_most(file, LARGEST_TEXT + 1)
    if len(content) > LARGEST_TEXT:
        raise UserError(f"{path}: must be at most {LARGEST_TEXT >> 20} MiB of text; use one play per file")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: must be UTF-8 text (byte {error.start:,} is invalid); get the file again") from None


def _windows(ids: NDArray[np.uint8]) -> Windows:
    """Return windows [n, 80] and the character after each, [n]."""
    windows = sliding_window_view(ids, WINDOW + 1)[::STRIDE]
    return windows[:, :WINDOW].copy(), windows[:, WINDOW].astype(np.int64)


def _joined(parts: list[Windows]) -> Windows:
    return np.concatenate([inputs for inputs, _ in parts]), np.concatenate([targets for _, targets in parts])


def _writers(parts: list[Windows]) -> NDArray[np.int64]:
    return np.repeat(np.arange(len(parts), dtype=np.int64), [len(targets) for _, targets in parts])
