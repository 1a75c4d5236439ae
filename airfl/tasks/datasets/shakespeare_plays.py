"""Shakespeare's plays in plain text, split by speaker: from 80 characters the next one, as in LEAF's Shakespeare.

A speaker is (play, name); what counts as speech is said in `formats.plays`. Speeches of a speaker are joined by blanks
in the play's order, as LEAF does, and every fifth position is taken (neighbouring ones share all but a character; the
37 plays give 0.81 million windows so, 77 MB with targets and speakers, instead of five times that). The first 80% of a
speaker's characters are for training, the rest for testing, each cut into windows by itself: the first test window
begins where the training text ends, so that no character of it, read or told, was in training. LEAF separates the
two likewise, by the length of a window. Speakers of fewer than two speeches (LEAF's rule), or too few characters for
one test window, are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from airfl.errors import UserError
from airfl.tasks.datasets.dataset import Dataset
from airfl.tasks.datasets.formats.characters import VOCABULARY, WINDOW, encode
from airfl.tasks.datasets.formats.files import OPENERS, read_at_most, reading
from airfl.tasks.datasets.formats.plays import speeches_of
from airfl.tasks.datasets.raw import RawData

ENDING = "_gut.txt"
STRIDE = 5
SPEECHES = 2
TEST_PART = 5  # a fifth
FEWEST_CHARACTERS = TEST_PART * (WINDOW + 1)
LARGEST_TEXT = 4 << 20  # a play has 0.1 to 0.2 million characters

Windows = tuple[NDArray[np.uint8], NDArray[np.int64]]


class ShakespearePlays(Dataset):
    """Shakespeare's plays in plain text, split by speaker: from 80 characters the next one."""

    name = "shakespeare-plays"
    folders = ("shakespeare-plays", "shakespeare")
    input_shape = (80,)
    classes = 90
    training_samples = 652_703
    text = "the same from plain texts of the plays, every fifth position"
    licence = "the plays are in the public domain; Project Gutenberg's edition, under its terms"
    writers = "its own files"
    kind = "text"
    cached = True

    def files(self, folder: Path) -> list[Path]:
        """The texts NAME_gut.txt, plain or packed, by name; empty if there are none."""
        found: dict[str, Path] = {}
        for suffix in OPENERS:
            for path in folder.glob(f"*{ENDING}{suffix}"):
                if path.is_file():
                    found.setdefault(path.name.removesuffix(suffix), path)
        return [found[name] for name in sorted(found)]

    def load(self, folder: Path) -> RawData:
        """Windows of all speakers, numbered in the order of the texts and their first words; UserError for bad ones."""
        train: list[Windows] = []
        test: list[Windows] = []
        for text in speakers_texts(self.files(folder)):
            ids = encode(text)
            cut = len(ids) - len(ids) // TEST_PART
            train.append(_windows(ids[:cut]))
            test.append(_windows(ids[cut:]))
        if not train:
            raise UserError(
                f"{folder}: no speaker with {SPEECHES} speeches and {FEWEST_CHARACTERS} characters in the texts; plays "
                "whose speech prefixes stand on lines of their own are wanted"
            )
        return RawData(*_joined(train), *_joined(test), VOCABULARY, (), (), _writers(train), _writers(test))


def speakers_texts(paths: list[Path]) -> Iterator[str]:
    """All that each speaker says, those left out that say too little."""
    for path in paths:
        said: dict[str, list[str]] = {}
        for speaker, speech in speeches_of(_read(path)):
            said.setdefault(speaker, []).append(speech)
        for speeches in said.values():
            text = " ".join(" ".join(speeches).split())
            if len(speeches) >= SPEECHES and len(text) >= FEWEST_CHARACTERS:
                yield text


def _read(path: Path) -> str:
    with reading(path) as file:
        content = read_at_most(file, LARGEST_TEXT + 1)
    if len(content) > LARGEST_TEXT:
        raise UserError(f"{path}: more than {LARGEST_TEXT >> 20} MiB of text; one play a file is wanted")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not plain text in UTF-8 (byte {error.start:,}); get the file again") from None


def _windows(ids: NDArray[np.uint8]) -> Windows:
    """Inputs [n, 80] and the character after each, [n]."""
    windows = sliding_window_view(ids, WINDOW + 1)[::STRIDE]
    return windows[:, :WINDOW].copy(), windows[:, WINDOW].astype(np.int64)


def _joined(parts: list[Windows]) -> Windows:
    return np.concatenate([inputs for inputs, _ in parts]), np.concatenate([targets for _, targets in parts])


def _writers(parts: list[Windows]) -> NDArray[np.int64]:
    return np.repeat(np.arange(len(parts), dtype=np.int64), [len(targets) for _, targets in parts])
