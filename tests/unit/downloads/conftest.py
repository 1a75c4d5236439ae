"""Fixtures of the tests of downloads."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.downloads.support import CONTENT, Fetcher, Server


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server with /data.bin."""
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "127.0.0.1")
    with Server() as server:
        server.files["/data.bin"] = CONTENT
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.005})
        thread.start()
        yield server
        server.closing.set()
        server.shutdown()
        thread.join()


@pytest.fixture
def fetch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fetcher:
    return Fetcher(tmp_path / "data", monkeypatch)
