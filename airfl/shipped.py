"""What comes with airfl: samples of data, and configurations that go by name.

In a checkout they are its data/ and experiments/configs/; a wheel carries copies of them in airfl/shipped_files/.
"""

from __future__ import annotations

from pathlib import Path

from airfl.errors import UserError, nearest

PACKAGE = Path(__file__).resolve().parent
INSTALLED = PACKAGE / "shipped_files"
PAPERS = "papers"


def data_folder() -> Path:
    """The folder with the samples of data sets."""
    return INSTALLED / "data" if INSTALLED.is_dir() else PACKAGE.parent / "data"


def configurations_folder() -> Path:
    """The folder with the configurations, those of papers in papers/."""
    return INSTALLED / "configs" if INSTALLED.is_dir() else PACKAGE.parent / "experiments" / "configs"


def configurations() -> dict[str, Path]:
    """Every shipped configuration: name -> file. papers/NAME.toml goes by NAME, and by papers/NAME."""
    folder = configurations_folder()
    files = [*sorted(folder.glob("*.toml")), *sorted((folder / PAPERS).glob("*.toml"))]
    return {file.stem: file for file in files}


def title(file: Path) -> str:
    """What a configuration is: its first line, a comment."""
    return file.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ").rstrip()


def find_configuration(given: str | Path) -> Path:
    """The file that is meant: one on disk, else the shipped configuration of that name.

    Raises UserError (one line: what was given, what there is) for what is neither.
    """
    path = Path(given)
    try:
        there = path.exists()
    except OSError:  # whoever reads it says why it cannot be
        return path
    shipped = configurations()
    long_names = {f"{PAPERS}/{name}": file for name, file in shipped.items() if file.parent.name == PAPERS}
    named = (shipped | long_names).get(str(given))
    if there and not (named and path.is_dir()):  # a folder of that name is nothing to read settings from
        return path
    if named is None:
        raise UserError(
            f"{given}: no such settings file, nor the name of one that comes with airfl"
            f"{nearest(str(given), shipped)} ({', '.join(shipped)})"
        )
    return named
