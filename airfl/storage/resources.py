"""Files that are installed with airfl: samples of data sets, a recorded channel (street-canyon/channel.h5), and
configurations that can be used by name.

In a checkout they are in data/ and experiments/configs/; a wheel contains copies of them in airfl/shipped_files/.
"""

from __future__ import annotations

from pathlib import Path

from airfl.errors import UserError, nearest

PACKAGE = Path(__file__).resolve().parents[1]
INSTALLED = PACKAGE / "shipped_files"
PAPERS = "papers"


def data_folder() -> Path:
    """Return the folder with the data that comes with airfl: samples of data sets, and recorded channels.

    In it is `street-canyon/channel.h5`, a ray-traced street that `channel.replay_file` reads.
    """
    return INSTALLED / "data" if INSTALLED.is_dir() else PACKAGE.parent / "data"


def configurations_folder() -> Path:
    """Return the folder with the configurations; those of papers are in its subfolder papers/."""
    return INSTALLED / "configs" if INSTALLED.is_dir() else PACKAGE.parent / "experiments" / "configs"


def configurations() -> dict[str, Path]:
    """Return the file of every shipped configuration by name. The name of papers/NAME.toml is NAME."""
    folder = configurations_folder()
    files = [*sorted(folder.glob("*.toml")), *sorted((folder / PAPERS).glob("*.toml"))]
    return {file.stem: file for file in files}


def title(file: Path) -> str:
    """Return the title of a configuration, which is the comment on its first line."""
    return file.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ").rstrip()


def find_configuration(given: str | Path) -> Path:
    """Return a settings file: the given path if it exists, else the shipped configuration of that name.

    Configurations of papers are found as NAME and as papers/NAME. Raises UserError if there is neither.
    """
    path = Path(given)
    try:
        there = path.exists()
    except OSError:  # reported when the file is read
        return path
    shipped = configurations()
    long_names = {f"{PAPERS}/{name}": file for name, file in shipped.items() if file.parent.name == PAPERS}
    named = (shipped | long_names).get(str(given))
    if there and not (named and path.is_dir()):  # a folder that has the name of a configuration is ignored
        return path
    if named is None:
        raise UserError(
            f"{given}: no such settings file or shipped configuration{nearest(str(given), shipped)} "
            f"({', '.join(shipped)})"
        )
    return named
