"""The command `airfl watch`, which shows a run in the browser while it goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from airfl.cli.app import say, show


def watch(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="folder of a run, sweep or comparison; may begin later", show_default=False),
    ],
    *,
    port: Annotated[int, typer.Option(metavar="PORT", min=0, max=65535, help="port on 127.0.0.1; 0 = a free one")] = 0,
    open_page: Annotated[bool, typer.Option("--open", help="open the page in the browser")] = False,
) -> None:
    """Follow a run or sweep on a local page while it runs."""
    from airfl.report.live import Watched, WatchServer

    watched = Watched(folder)
    with WatchServer(watched, port) as server:
        show(server.address)
        say(f"{folder}: watched until Ctrl-C; the address works on this machine, or through ssh -L")
        if open_page:
            import webbrowser

            webbrowser.open(server.address)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return
