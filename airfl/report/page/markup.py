"""HTML from plain text: whatever is not made here is escaped."""

from __future__ import annotations

import html
import json
from typing import Any

EMPTY = frozenset({"meta", "input", "br", "line"})  # elements without an end


class Html(str):
    """Text that is markup already."""


def tag(name: str, /, *content: str, **attributes: Any) -> Html:
    """An element. Content is escaped unless it is `Html`; attributes: `class_` is class, `data_value` data-value, True
    stands by itself, None and False are left out."""
    written = "".join(
        f" {_name(key)}" if value is True else f' {_name(key)}="{html.escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    end = "" if name in EMPTY else f"</{name}>"
    return Html(f"<{name}{written}>{join(*content)}{end}")


def join(*content: str) -> Html:
    """Pieces after one another, escaped unless they are `Html`."""
    return Html("".join(piece if isinstance(piece, Html) else html.escape(piece) for piece in content))


def prose(text: str) -> Html:
    """A sentence; what stands in backticks is code."""
    return join(*(tag("code", piece) if odd % 2 else piece for odd, piece in enumerate(text.split("`"))))


def paragraph(*content: str, **attributes: Any) -> Html:
    """A paragraph."""
    return tag("p", *content, **attributes)


def bullets(lines: list[str] | list[Html], shown: int = 12) -> Html:
    """A list; what is beyond the first `shown` lines is folded."""
    first = tag("ul", *(tag("li", line) for line in lines[:shown]))
    rest = lines[shown:]
    return join(first, folded(f"{len(rest)} more", bullets(rest, len(rest)))) if rest else first


def folded(summary: str, *content: str) -> Html:
    """Content that opens by a click."""
    return tag("details", tag("summary", summary), *content)


def island(value: Any, **attributes: Any) -> Html:
    """Plain data for the page's script, as JSON that holds no markup."""
    text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return tag("script", Html(text), type="application/json", **attributes)


def _name(key: str) -> str:
    return key.rstrip("_").replace("_", "-")
