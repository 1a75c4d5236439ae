"""The overview in CONTRIBUTING.md lists every package and module, and nothing that does not exist."""

import re

from tests.conftest import ROOT

PAGE = (ROOT / "CONTRIBUTING.md").read_text()
HOUSE = PAGE.split("## The house")[1].split("## Where to put what")[0]
TABLE = [line for line in PAGE.split("## Where to put what")[1].splitlines() if line.startswith("| ")]


def test_every_room_is_in_the_picture() -> None:
    for package in ("airfl", "channels"):
        for folder in sorted((ROOT / package).iterdir()):
            if (folder / "__init__.py").exists():
                assert f"{folder.name}/" in HOUSE, folder
    for folder in sorted((ROOT / "tests").iterdir()):
        if (folder / "__init__.py").exists():
            assert f"`{folder.name}/`" in HOUSE, folder


def test_every_room_that_is_named_is_there() -> None:
    named = set(re.findall(r"`((?:airfl|channels|experiments|tests|docs)/[\w/]*(?:\.py)?)`", HOUSE))
    assert len(named) > 25
    for name in named:
        assert (ROOT / name).exists(), name
    for name in re.findall(r"\b([a-z_]+\.py)\b", HOUSE):
        assert [file for package in ("airfl", "channels", "tests") for file in (ROOT / package).rglob(name)], name


def test_every_table_that_is_named_is_there() -> None:
    for line in TABLE:
        for name in re.findall(r"`((?:airfl|channels|docs)/[\w/.]+\.(?:py|yml))`", line):
            assert (ROOT / name).exists() or "NAME" in name, line


def test_what_runs_takes_the_parts_it_needs() -> None:
    """Parts are built from the settings before the first round; from then on no code is passed all settings."""
    rooms = ("selection", "uplinks", "learning", "privacy", "storage", "schemes")
    files = ("accounting", "scheduling", "round_plan", "scenario", "round", "record", "state", "state_size")
    builders = "learning/chosen_task learning/own_task learning/task schemes/claims schemes/links schemes/recipe"
    airfl = ROOT / "airfl"
    running = [airfl / "core" / f"{name}.py" for name in files]
    running += [file for room in rooms for file in (airfl / room).rglob("*.py")]
    handed = {str(file.relative_to(airfl)) for file in running if re.search(r": Settings\b", file.read_text())}
    assert handed == {f"{name}.py" for name in builders.split()}
