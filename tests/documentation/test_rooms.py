"""The order of the rooms of airfl: imports run downward through one list, and there are no circular imports.

Imports for type checkers and those inside functions count too.
"""

import ast
from collections.abc import Iterator

import pytest

from tests.conftest import ROOT

ORDER = (
    *(
        "cli",
        "report",
        "exports",
        "study",
        "theory",
        "analysis",
        "experiment",
        "simulation",
        "core.callbacks",
        "core",
        "schemes",
    ),
    *("learning", "uplinks", "config", "schemes.names", "schemes.scheme", "privacy", "learning.tasks", "selection"),
    *(
        "uplinks.stages",
        "runtime.philox",
        "storage",
        "runtime.notebook",
        "runtime.text",
        "runtime",
        "errors",
        "version",
    ),
)
"""Rooms from the top down. The declarations of a scheme and the table of schemes are below the settings, which use
nothing else of schemes. The stages of an encoder are below uplinks and training, which both use them."""
FLOORS = 10
"""Rooms in the longest chain of rooms of which each imports the next."""
ABOVE = ("airfl", "airfl.__main__")
"""Modules above all rooms: they import from every room."""


MODULES = {
    ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): file
    for file in sorted((ROOT / "airfl").rglob("*.py"))
}
"""The modules of airfl, from dotted name to file."""


def imported(name: str) -> Iterator[str]:
    """Yield the modules of airfl that a module of airfl imports, anywhere in its file."""
    for node in ast.walk(ast.parse(MODULES[name].read_text())):
        if isinstance(node, ast.Import):
            wanted = [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            wanted = [f"{node.module}.{one.name}" for one in node.names]
        else:
            continue
        for one in wanted:
            if one.partition(".")[0] == "airfl":
                while one not in MODULES:
                    one = one.rpartition(".")[0]
                if one != name:
                    yield one


def floor(name: str) -> int:
    """Return the position in the list of the longest entry that contains the module."""
    inside = [entry for entry in ORDER if f"{name}.".startswith(f"airfl.{entry}.")]
    assert inside, f"{name} is in no room of the list"
    return ORDER.index(max(inside, key=len))


def rooms_below() -> dict[str, set[str]]:
    """Return the rooms that each room imports from."""
    direct: dict[str, set[str]] = {room: set() for room in ORDER}
    for name in MODULES:
        if name not in ABOVE:
            room = ORDER[floor(name)]
            direct[room] |= {ORDER[floor(other)] for other in imported(name)} - {room}
    return direct


@pytest.mark.parametrize("room", ORDER)
def test_imports_run_downward(room: str) -> None:
    upward = [
        f"{name} -> {other}"
        for name in MODULES
        if name not in ABOVE and floor(name) == ORDER.index(room)
        for other in imported(name)
        if other in ABOVE or floor(other) < floor(name)
    ]
    assert not upward


def test_there_is_no_circle() -> None:
    """Repeatedly removing the modules that import none of the remaining ones removes all modules."""
    left = {name: set(imported(name)) for name in MODULES if name not in ABOVE}
    for name, others in left.items():
        left[name] = {one for one in others if not (one in left and name.startswith(f"{one}."))}
    while gone := {name for name, others in left.items() if not others & left.keys()}:
        left = {name: others for name, others in left.items() if name not in gone}
    assert not left


def test_no_chain_of_rooms_is_longer() -> None:
    floors: dict[str, int] = {}
    for room, below in reversed(rooms_below().items()):
        floors[room] = 1 + max((floors[one] for one in below), default=0)
    assert max(floors.values()) == FLOORS, floors


def test_what_stands_at_the_top() -> None:
    """Beside the stubs of short names, which tests/unit/test_parts.py holds to their table."""
    loose = {file.name for file in (ROOT / "airfl").iterdir() if file.is_file() and file.suffix != ".pyi"}
    assert loose == {
        *(
            "__init__.py",
            "__main__.py",
            "errors.py",
            "experiment.py",
            "ieee.mplstyle",
            "py.typed",
            "simulation.py",
            "version.py",
        )
    }


def test_the_list_in_contributing_is_that_of_the_imports() -> None:
    """The list has the rooms in their order, and what each of them imports."""
    shown = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in (ROOT / "CONTRIBUTING.md").read_text().split("## The house")[1].splitlines()
        if line.startswith("| `airfl/")
    ]
    direct = rooms_below()
    wanted = [(room, ", ".join(one for one in ORDER if one in direct[room]) or "-") for room in ORDER]
    paths = [name.strip("`").removeprefix("airfl/").removesuffix(".py").strip("/") for name, _, _ in shown]
    assert [(path.replace("/", "."), row[2]) for path, row in zip(paths, shown, strict=True)] == wanted
