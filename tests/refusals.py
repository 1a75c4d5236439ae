"""Helpers to match error messages."""

import re


def one_line(*said: str, begins: str = "") -> str:
    """For `pytest.raises(match=...)`: a line without an end, in which all of these stand."""
    return r"\A" + "".join(rf"(?=.*{re.escape(words)})" for words in said) + re.escape(begins) + r".*\Z"
