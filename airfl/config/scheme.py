"""The section `scheme`: the name of the scheme, and its parameters."""

from __future__ import annotations

from typing import Annotated

from airfl.config.parts import PartOf
from airfl.schemes.names import SCHEMES
from airfl.schemes.scheme import Scheme

SCHEME = PartOf(
    SCHEMES,
    "scheme",
    "pfels",
    "The scheme and its parameters. Parentheses name the schemes that have a key; other schemes reject it.",
)
SchemePart = Annotated[Scheme, SCHEME]
