"""Names of files and folders that come from outside."""

import pytest

from airfl.storage.output_files import LONGEST_NAME, is_a_name


@pytest.mark.parametrize("text", ["a", "seed-0", "a.b", "...", "a" * LONGEST_NAME])
def test_a_plain_name_is_one(text: str) -> None:
    assert is_a_name(text)


@pytest.mark.parametrize("text", ["", ".", "..", "a/b", "/a", "../a", "a/", "a\0b", "a" * (LONGEST_NAME + 1)])
def test_a_path_that_leads_elsewhere_is_none(text: str) -> None:
    assert not is_a_name(text)
