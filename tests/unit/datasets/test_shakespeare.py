"""Next-character prediction: the vocabulary, LEAF's Shakespeare, and plain texts of plays."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from airfl.learning.tasks.datasets import find_dataset, shakespeare_plays
from airfl.learning.tasks.datasets.formats.characters import LETTERS, UNKNOWN, VOCABULARY, WINDOW, encode
from airfl.learning.tasks.datasets.formats.plays import speeches_of
from airfl.learning.tasks.datasets.shakespeare import Shakespeare
from airfl.learning.tasks.datasets.shakespeare_plays import ShakespearePlays
from tests.unit.datasets.support import SUFFIXES, put, refusal
from tests.unit.datasets.test_leaf import Users, leaf

LINE = "Now is the winter of our discontent made glorious summer by this sun of York; and all the clouds"


def decode(ids: np.ndarray) -> str:
    """The text that was encoded, if it has known characters only."""
    return "".join(LETTERS[number] for number in ids)


# --- Characters


def test_the_vocabulary_is_leafs() -> None:
    assert len(LETTERS) == len(set(LETTERS)) == UNKNOWN == 80
    assert encode(LETTERS).tolist() == list(range(80))
    assert encode("\n aZ}").tolist() == [0, 1, 53, 50, 79]
    assert encode("~\u00e9\u2014\U0001f3ad\ud800\x00").tolist() == [80] * 6
    assert encode("").tolist() == []
    assert encode("a").dtype == np.uint8
    assert VOCABULARY == 90


# --- LEAF


def samples(text: str, count: int) -> tuple[list[Any], list[Any]]:
    """x and y of a user, as LEAF cuts them: neighbouring windows."""
    return [text[start : start + 80] for start in range(count)], [text[start + 80] for start in range(count)]


HAMLET, GHOST = samples(LINE, 10), samples(LINE[::-1], 3)


@SUFFIXES
@pytest.mark.parametrize("below", [".", "data"])
def test_leafs_split_is_kept(tmp_path: Path, suffix: str, below: str) -> None:
    place = tmp_path / below
    put(place / "train" / f"all_data_0_train_8.json{suffix}", leaf({"HAMLET": HAMLET, "GHOST": GHOST}))
    put(place / "test" / f"all_data_0_test_8.json{suffix}", leaf({"GHOST": samples(LINE[2:], 2)}))
    raw = Shakespeare().load(tmp_path)
    assert [decode(ids) for ids in raw.train_inputs] == HAMLET[0] + GHOST[0]
    assert decode(raw.train_targets) == "".join(HAMLET[1] + GHOST[1])
    assert [decode(ids) for ids in raw.test_inputs] == samples(LINE[2:], 2)[0]
    assert (raw.train_writers.tolist(), raw.test_writers.tolist()) == ([0] * 10 + [1] * 3, [1, 1])
    assert (raw.train_inputs.shape, raw.train_inputs.dtype) == ((13, WINDOW), np.uint8)
    assert (raw.train_targets.dtype, raw.classes, raw.mean, raw.std) == (np.int64, 90, (), ())


def test_other_characters_are_read_too(tmp_path: Path) -> None:
    put(tmp_path / "train" / "a.json", leaf({"w": (["\u00e9" * 80], ["\u2014"])}))
    put(tmp_path / "test" / "a.json", leaf({"w": HAMLET}))
    raw = Shakespeare().load(tmp_path)
    assert (raw.train_inputs.tolist(), raw.train_targets.tolist()) == ([[80] * 80], [80])


X, Y = HAMLET
WRONG: dict[str, tuple[Users, str]] = {
    "a short window": ({"w": ([*X[:9], X[9][:-1]], Y)}, "x must be strings of 80 characters"),
    "a long window": ({"w": ([*X[:9], X[9] + "x"], Y)}, "x must be strings of 80 characters"),
    "a window that makes up for another": ({"w": ([X[0] + "x", X[1][1:], *X[2:]], Y)}, "strings of 80 characters"),
    "numbers": ({"w": ([[0] * 80] * 10, Y)}, "x must be strings of 80 characters"),
    "two characters to tell": ({"w": (X, [*Y[:9], "ab"])}, "y must be single characters"),
    "nothing to tell": ({"w": (X, [*Y[:9], ""])}, "y must be single characters"),
    "a number to tell": ({"w": (X, [*Y[:9], 1])}, "y must be single characters"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_files_of_leafs_are_refused(tmp_path: Path, wrong: str) -> None:
    users, says = WRONG[wrong]
    put(tmp_path / "test" / "a.json", leaf({"w": HAMLET}))
    path = put(tmp_path / "train" / "a.json.gz", leaf(users))
    assert says in refusal(lambda: Shakespeare().load(tmp_path), path)


def test_parts_that_lack_something_are_refused(tmp_path: Path) -> None:
    place = tmp_path / "shakespeare"
    put(place / "train" / "0.json", leaf({"v": HAMLET, "w": GHOST}))
    assert "train/ and test/" in refusal(lambda: find_dataset("shakespeare", [tmp_path]), place)
    put(place / "test" / "0.json", leaf({"w": ([], [])}))
    assert "training and test samples, got 13 and 0" in refusal(lambda: Shakespeare().load(place), place)
    second = put(place / "train" / "1.json", leaf({"w": GHOST}))
    assert "user 'w' occurs twice" in refusal(lambda: Shakespeare().load(place), second)


# --- Plays


PLAY = """A PLAY

by Nobody

PERSONS REPRESENTED.

KING OF NOWHERE.
THE CLOWN.

SCENE: Here.

ACT I.

SCENE 1. A room.

[Enter the KING, with many
Attendants.]

KING.
First line of the king,
[Aside.] and a second [to himself
alone] one.

[Exit a Servant.]

Come hither, sir.
The king goes on.

Enter the Clown.

CLOWN
  A clown's line. Exit Clown

ALL.
Long live the king!

PAGE.
Here, once.

KING AND CLOWN.
Together.

ACT II. SCENE I.

Something nobody says.

KING.

{Reading.] Last words
[unclosed direction
of two lines

KING OF NOWHERE.
Another king.

DRAMATIS PERSONAE
"""
SAID = [
    ("KING", "First line of the king,\nand a second  one.\nCome hither, sir.\nThe king goes on."),
    ("CLOWN", "A clown's line."),
    ("PAGE", "Here, once."),
    ("KING", "Last words"),
    ("KING OF NOWHERE", "Another king."),
]


def test_a_play_is_cut_into_speeches() -> None:
    assert list(speeches_of(PLAY)) == SAID
    assert list(speeches_of(PLAY.replace("\n", "\r\n"))) == SAID


def test_prefixes_may_be_short_and_in_small_letters() -> None:
    """Then a line that stands alone is a prefix only if it is one elsewhere."""
    play = (
        "Act I.\n\nHam.\nTo be,\nor not.\n\nGood my lord.\n\nOphelia?\n\nFirst Clown.\nDigs.\n\nHam.\n\nLast.\n\n"
        "Ros. and Guild.\nBoth.\n\nLady  Montague.\nShe.\n"
    )
    said = [("HAM", "To be,\nor not.\nGood my lord.\nOphelia?"), ("FIRST CLOWN", "Digs.")]
    said += [("HAM", "Last."), ("LADY MONTAGUE", "She.")]
    assert list(speeches_of(play)) == said


@pytest.mark.parametrize(
    "text", ["", "No play at all.\n\nJust text.\n", "ACT I.\n\nSCENE 1.\n", "[" * 5000, "ACT [\n" * 5000]
)
def test_other_texts_hold_no_speeches(text: str) -> None:
    assert list(speeches_of(text)) == []


def speech(letter: str, length: int) -> str:
    """A verse that tells by its letters who says it and where: abcde of so many characters."""
    return "".join(f"{letter}{number:04}" for number in range(length))[:length]


def play(*speeches: tuple[str, str]) -> bytes:
    return ("ACT I.\n\n" + "".join(f"{name}.\n{text}\n\n" for name, text in speeches)).encode()


CAST = [("ANNA", speech("a", 500)), ("BERT", speech("b", 404)), ("ANNA", speech("A", 499)), ("CARL", speech("c", 900))]


@SUFFIXES
def test_windows_stay_within_a_speaker_and_a_part(tmp_path: Path, suffix: str) -> None:
    """Anna: 1,000 characters, the first 800 to train on, 200 to test on. Bert has too few, Carl a single speech."""
    put(tmp_path / f"one_gut.txt{suffix}", play(*CAST, ("BERT", "")))
    put(tmp_path / f"two_gut.txt{suffix}", play(("ANNA", speech("d", 202)), ("ANNA", speech("e", 202))))
    put(tmp_path / "metadata.txt", b"no play")
    raw = ShakespearePlays().load(tmp_path)
    text = f"{speech('a', 500)} {speech('A', 499)}"
    starts = range(0, 800 - 80, 5)
    first = [text[start : start + 80] for start in starts]
    assert [decode(ids) for ids in raw.train_inputs[raw.train_writers == 0]] == first
    assert decode(raw.train_targets[raw.train_writers == 0]) == "".join(text[start + 80] for start in starts)
    later = range(800, 1000 - 80, 5)
    assert [decode(ids) for ids in raw.test_inputs[raw.test_writers == 0]] == [text[s : s + 80] for s in later]
    assert decode(raw.test_targets[raw.test_writers == 0]) == "".join(text[start + 80] for start in later)
    # 405 characters are just enough for one window to test on.
    other = f"{speech('d', 202)} {speech('e', 202)}"
    assert [decode(ids) for ids in raw.test_inputs[raw.test_writers == 1]] == [other[324:404]]
    assert set(raw.train_writers) == set(raw.test_writers) == {0, 1}
    assert (raw.train_inputs.dtype, raw.train_targets.dtype, raw.classes) == (np.uint8, np.int64, 90)
    assert (raw.mean, raw.std) == ((), ())


def test_the_texts_are_found_once_each(tmp_path: Path) -> None:
    for name in ("b_gut.txt.gz", "b_gut.txt", "a_gut.txt.xz", "c.txt", "d_gut.txt.zip"):
        put(tmp_path / "shakespeare" / name, b"")
    folder = find_dataset("shakespeare-plays", [tmp_path])
    assert folder == tmp_path / "shakespeare"
    assert [path.name for path in ShakespearePlays().files(folder)] == ["a_gut.txt.xz", "b_gut.txt"]
    assert find_dataset("shakespeare", [tmp_path]) is None


def test_wrong_texts_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(tmp_path / "a_gut.txt", b"ACT I.\n\n\xff\xfe")
    assert "must be UTF-8 text (byte 8 " in refusal(lambda: ShakespearePlays().load(tmp_path), path)
    put(path, play(("ANNA", "short")))
    assert "no speaker with 2 speeches and 405" in refusal(lambda: ShakespearePlays().load(tmp_path), tmp_path)
    monkeypatch.setattr(shakespeare_plays, "LARGEST_TEXT", 20)
    assert "one play per file" in refusal(lambda: ShakespearePlays().load(tmp_path), path)
    packed = put(tmp_path / "a_gut.txt.gz", play(*CAST))
    path.unlink()
    packed.write_bytes(packed.read_bytes()[:-20])
    refusal(lambda: ShakespearePlays().load(tmp_path), packed)
