"""A request to a mirror: its response, the byte at which that begins, and errors as one printable line."""

from __future__ import annotations

import http
import re
from collections.abc import Iterator
from http.client import HTTPException, HTTPMessage, HTTPResponse
from typing import IO, cast
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import (
    BaseHandler,
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPHandler,
    HTTPRedirectHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
    UnknownHandler,
)

from airfl.version import __version__

SCHEMES = ("http", "https")
BLOCK = 1 << 16
WORTH_A_RETRY = (408, 425, 429, 500, 502, 503, 504)


class MirrorError(Exception):
    """A mirror did not provide the file. `again` is true if another attempt may succeed."""

    def __init__(self, reason: str, again: bool = False) -> None:
        super().__init__(reason)
        self.again = again


class _Redirects(HTTPRedirectHandler):
    """A redirect handler that follows redirects to http and https only."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        """Return the request that follows the redirect; raise HTTPError if it must not be followed."""
        if urlsplit(newurl).scheme not in SCHEMES:
            raise HTTPError(req.full_url, code, msg, headers, fp)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


HANDLERS: tuple[type[BaseHandler], ...] = (
    ProxyHandler,
    HTTPHandler,
    HTTPSHandler,
    _Redirects,
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    UnknownHandler,
)


def _opener() -> OpenerDirector:
    """Return an opener without urllib's handlers for file, data and ftp URLs."""
    opener = OpenerDirector()
    for kind in HANDLERS:
        opener.add_handler(kind())
    return opener


def ask(url: str, offset: int, timeout: float) -> HTTPResponse | None:
    """Return the response to a request from `offset` on; None if the file has no bytes from there on."""
    if urlsplit(url).scheme not in SCHEMES:
        raise MirrorError("only http and https are allowed")
    request = Request(url, headers={"User-Agent": f"airfl/{__version__}"})
    if offset:
        request.add_header("Range", f"bytes={offset}-")
    try:
        return cast(HTTPResponse, _opener().open(request, timeout=timeout))
    except HTTPError as error:
        error.close()
        if error.code == 416 and offset:
            return None
        raise MirrorError(status(error.code), again=error.code in WORTH_A_RETRY) from None
    except (OSError, HTTPException, ValueError) as error:
        raise MirrorError(reason(error), again=True) from None


def place(response: HTTPResponse, offset: int) -> tuple[int, int | None]:
    """Return the offset in the file at which the response begins, and the size of the file if the server gives it."""
    if response.status == http.HTTPStatus.OK:
        return 0, response.length
    if response.status != http.HTTPStatus.PARTIAL_CONTENT:
        raise MirrorError(status(response.status))
    told = response.headers.get("Content-Range", "")
    match = re.fullmatch(r"bytes +([0-9]{1,18})-[0-9]{1,18}/([0-9]{1,18}|\*)", told.strip())
    if match is None or int(match[1]) != offset:
        raise MirrorError(f"requested bytes {offset}-, got another range", again=True)
    return offset, None if match[2] == "*" else int(match[2])


def blocks(response: HTTPResponse, most: int) -> Iterator[bytes]:
    """Yield the blocks of the response as they arrive, at most `most` bytes in total."""
    while most > 0:
        try:
            block = response.read1(min(BLOCK, most))
        except (OSError, HTTPException, ValueError) as error:
            raise MirrorError(f"interrupted: {reason(error)}", again=True) from None
        if not block:
            return
        most -= len(block)
        yield block


def status(code: int) -> str:
    """Return a description of an HTTP status code, without any text from the server."""
    if 300 <= code < 400:
        return f"HTTP {code}, a redirect that is not followed (only http and https are, and not in circles)"
    known = code in {status.value for status in http.HTTPStatus}
    return f"HTTP {code} {http.HTTPStatus(code).phrase}" if known else f"HTTP {code}"


def reason(error: Exception) -> str:
    """Return the reason for an error as one printable line."""
    cause = error.reason if isinstance(error, URLError) else error
    if isinstance(cause, TimeoutError):
        return "no answer in time"
    told = cause.strerror if isinstance(cause, OSError) and cause.strerror else str(cause)
    line = " ".join(told.split())[:200]
    return "".join(letter for letter in line if letter.isprintable()) or type(cause).__name__
