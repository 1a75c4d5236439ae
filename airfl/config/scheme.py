"""The section `scheme`: which scheme, with its own parameters."""

from __future__ import annotations

from typing import Annotated

from airfl.config.parts import PartOf
from airfl.schemes.names import SCHEMES
from airfl.schemes.scheme import Scheme

SCHEME = PartOf(
    SCHEMES,
    "scheme",
    "pfels",
    "Which scheme, and its own parameters; in brackets the schemes that have a key, which others refuse.",
)
SchemePart = Annotated[Scheme, SCHEME]
