"""The process that reads traces for `airfl.storage.trace.isolated`: it opens and describes files and returns values.

It is started as `python -m airfl.storage.trace.server`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from airfl.errors import UserError
from airfl.storage.trace.file import TraceFile
from airfl.storage.trace.integrity import BEING_WRITTEN, DamagedTraceError, open_checked
from airfl.storage.trace.isolated import identity, plain_contents
from channels.isolated.server import Answer, serve

MOST_OPEN = 32


class TraceServer:
    """Answers requests, and keeps the most recently used files open."""

    def __init__(self) -> None:
        self._open: OrderedDict[tuple[Any, ...], TraceFile] = OrderedDict()

    def answer(self, request: Mapping[str, Any]) -> Answer:
        """Return the answer to a request, with user errors and damage as fields of the answer."""
        try:
            return self._answer(request)
        except UserError as error:
            return {"refused": str(error)}, b""
        except DamagedTraceError as error:
            return {"damaged": str(error)}, b""
        except OSError as error:
            if BEING_WRITTEN in str(error):
                return {"fault": BEING_WRITTEN}, b""
            raise

    def _answer(self, request: Mapping[str, Any]) -> Answer:
        path, which = str(request["path"]), (request["path"], *request["identity"])
        if request["do"] == "close":
            found = self._open.pop(which, None)
            if found is not None:
                found.close()
            return {}, b""
        file = self._file(path, which)
        if request["do"] == "open":
            return plain_contents(file.contents), b""
        values = np.asarray(file.read(request["name"], tuple(_key(one) for one in request["key"])))
        if values.dtype == object:
            return {"texts": [str(one) for one in values.ravel().tolist()]}, b""
        return {}, np.ascontiguousarray(values).reshape(-1).view(np.uint8).data

    def _file(self, path: str, which: tuple[Any, ...]) -> TraceFile:
        if which not in self._open:
            if (path, *identity(path)) != which:
                raise UserError(f"{path}: changed while it was being read; open it again")
            while len(self._open) >= MOST_OPEN:
                self._open.popitem(last=False)[1].close()
            self._open[which] = TraceFile(Path(path), open_checked(path))
        self._open.move_to_end(which)
        return self._open[which]


def _key(plain: Any) -> Any:
    if isinstance(plain, dict):
        return slice(*plain["slice"])
    return np.array(plain, dtype=np.int64) if isinstance(plain, list) else plain


if __name__ == "__main__":
    serve(TraceServer().answer, "h5py")
