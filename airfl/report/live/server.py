"""A server for the browser on this machine: one page, and the data that it asks for."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import sys
from functools import cached_property
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qs, urlsplit

from airfl.errors import UserError
from airfl.report.live.watched import Request, Watched, as_json

LOOPBACK = "127.0.0.1"
HOSTS = (LOOPBACK, "localhost")
"""Names under which a browser may ask, with any port: a tunnel may use another one than the server."""
SECONDS_PER_REQUEST = 10.0
MOST_FIELDS = 64


class WatchServer(ThreadingHTTPServer):
    """Shows a folder to whoever knows the token, at an address of this machine alone.

    Args:
        watched: The folder.
        port: Port on 127.0.0.1; 0 for a free one.

    Raises:
        UserError: If the port cannot be used.
    """

    daemon_threads = True
    block_on_close = False

    def __init__(self, watched: Watched, port: int = 0) -> None:
        self.watched, self.token = watched, secrets.token_urlsafe(24)
        try:
            super().__init__((LOOPBACK, port), _Handler)
        except OSError as error:
            raise UserError(f"--port {port}: cannot be used ({error.strerror}); choose another, or 0") from None

    @property
    def address(self) -> str:
        """The address of the page, with the token."""
        return f"http://{LOOPBACK}:{self.server_port}/?token={self.token}"

    @cached_property
    def page(self) -> bytes:
        """The page: one text with HTML, style and script."""
        style = files("airfl.report.page").joinpath("page.css").read_text(encoding="utf-8") + _beside("live.css")
        page = _beside("live.html").replace("/* style */", style).replace("/* script */", self.script)
        return page.encode()

    @cached_property
    def script(self) -> str:
        """The script of the page."""
        return _beside("live.js")

    @cached_property
    def policy(self) -> str:
        """A content security policy under which this script alone runs, and fetches from this server alone."""
        total = base64.b64encode(hashlib.sha256(self.script.encode()).digest()).decode()
        return (
            f"default-src 'none'; script-src 'sha256-{total}'; style-src 'unsafe-inline'; img-src data:; "
            "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore connections that the browser has dropped; print the traceback of anything else."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


def _beside(name: str) -> str:
    return files("airfl.report.live").joinpath(name).read_text(encoding="utf-8")


class _Handler(BaseHTTPRequestHandler):
    server: WatchServer
    timeout = SECONDS_PER_REQUEST
    server_version, sys_version = "airfl", ""

    def do_GET(self) -> None:
        """Answer a request, or refuse it if it is from another page or without the token."""
        try:
            parts = urlsplit(self.path)
            fields = parse_qs(parts.query, max_num_fields=MOST_FIELDS)
        except ValueError:
            return self._refuse(HTTPStatus.BAD_REQUEST)
        if not self._of_this_machine():
            return self._refuse(HTTPStatus.FORBIDDEN, "open the address that airfl watch has printed")
        # No cookie: browsers send those of 127.0.0.1 to every port, to the servers of others too.
        if not self._is_token(fields.get("token", [""])[-1]):
            return self._refuse(HTTPStatus.FORBIDDEN, "open the address that airfl watch has printed, with its token")
        if parts.path == "/":
            headers = {"Content-Security-Policy": self.server.policy}
            return self._answer(HTTPStatus.OK, "text/html", self.server.page, headers)
        if parts.path == "/data":
            wanted = [one for text in fields.get("of", []) if (one := _request(text)) is not None]
            data = as_json(self.server.watched.data(wanted)).encode()
            return self._answer(HTTPStatus.OK, "application/json", data)
        return self._refuse(HTTPStatus.NOT_FOUND)

    def _of_this_machine(self) -> bool:
        """Whether the Host header names this machine; it does not if a page elsewhere has pointed its own domain here
        (DNS rebinding)."""
        host, _, port = self.headers.get("Host", "").partition(":")
        return host.lower() in HOSTS and (not port or port.isdecimal())

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(errors="replace"), self.server.token.encode())

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse what Python's server refuses by itself; methods other than GET are not allowed."""
        status = HTTPStatus(code)
        self._refuse(HTTPStatus.METHOD_NOT_ALLOWED if status == HTTPStatus.NOT_IMPLEMENTED else status)

    def _refuse(self, status: HTTPStatus, why: str = "") -> None:
        text = f"{status.value} {status.phrase}" + (f": {why}" if why else "") + "\n"
        more = {"Allow": "GET"} if status == HTTPStatus.METHOD_NOT_ALLOWED else {}
        self._answer(status, "text/plain", text.encode(), more)

    def _answer(self, status: HTTPStatus, kind: str, body: bytes, more: dict[str, str] | None = None) -> None:
        self.send_response(status)
        headers = {
            "Content-Type": f"{kind}; charset=utf-8",
            "Content-Length": str(len(body)),
            "Cache-Control": "no-store",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Connection": "close",
            **(more or {}),
        }
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing: requests contain the token."""


def _request(text: str) -> Request | None:
    """Return the request that GENERATION:ROUNDS:NAME stands for; None for any other text."""
    parts = text.split(":", 2)
    if len(parts) < 3:
        return None
    generation, rounds, name = parts
    if not (generation.isdecimal() and rounds.isdecimal() and max(len(generation), len(rounds)) < 16):
        return None
    return Request(name, int(generation), int(rounds))
