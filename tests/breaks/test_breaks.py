"""The list of deliberate breaks matches the current sources; `make breaks` checks whether the tests detect them."""

import ast
from collections import Counter

import pytest

from tests.breaks import ROOT, Break, kinds, read_breaks

FEWEST = 60
BREAKS = [one for kind in kinds() for one in read_breaks(kind)]


@pytest.mark.parametrize("broken", BREAKS, ids=lambda one: f"{one.kind}: {one.name}")
def test_a_break_fits_its_file_and_its_tests_are_there(broken: Break) -> None:
    """A change to the text of a break, or a move of its tests, is noticed at once."""
    changed = broken.put_into((ROOT / broken.file).read_text(encoding="utf-8"))
    if broken.file.endswith(".py"):
        ast.parse(changed)
    assert broken.text != broken.instead
    assert broken.tests
    for test in broken.tests:
        path, _, name = test.partition("::")
        assert (ROOT / path).exists(), test
        assert not name or f"def {name}(" in (ROOT / path).read_text(encoding="utf-8"), test


def test_there_are_enough_of_different_names() -> None:
    assert len(BREAKS) >= FEWEST
    assert Counter(one.name for one in BREAKS).most_common(1)[0][1] == 1


def test_a_text_that_is_not_there_exactly_once_is_refused() -> None:
    broken = Break("physics", "a wrong factor", "file.py", "2 * x", "x", ("tests",))
    assert broken.put_into("y = 2 * x + 1") == "y = x + 1"
    for source in ("y = x", "y = 2 * x + 2 * x"):
        with pytest.raises(ValueError, match="a wrong factor"):
            broken.put_into(source)
