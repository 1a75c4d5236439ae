"""Helpers to match error messages."""

import re


def one_line(*said: str, begins: str = "") -> str:
    """Return a pattern for `pytest.raises(match=...)`: one line without a line break that contains all these texts."""
    return r"\A" + "".join(rf"(?=.*{re.escape(words)})" for words in said) + re.escape(begins) + r".*\Z"
