"""docs/reproduce.md and docs/published.md: the tables are those that are made from the pages and the committed data."""

import csv
import importlib
import re
import tomllib
from statistics import fmean
from types import ModuleType

import pytest

from airfl.version import __version__
from experiments.papers import published
from experiments.papers.common import RESULTS
from tests.conftest import ROOT
from tests.documentation.blocks import DOCS

PAGE = (DOCS / "reproduce.md").read_text()


@pytest.fixture(scope="module")
def reproduce() -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(DOCS / "_site"))
        return importlib.import_module("reproduce")


def test_the_tables_are_those_that_are_made(reproduce: ModuleType) -> None:
    assert reproduce.filled(PAGE) == PAGE, "python docs/_site/reproduce.py writes them"


def test_every_figure_has_its_commands_and_seeds(reproduce: ModuleType) -> None:
    """By the text of the pages: every picture that is shown, and the whole sequence where a figure reads runs."""
    shown = sum(len(re.findall(r"!\[[^\]]+\]\([^)\s]+\)", page.read_text())) for page in reproduce.pages())
    rows = re.findall(r"^\| \[([\w-]+)\]\([\w/.-]+\) \| (.*) \| ([^|]*) \|$", PAGE, flags=re.MULTILINE)
    assert len(rows) == shown > 40
    found = {name: (commands.split("<br>"), seeds) for name, commands, seeds in rows}
    assert found["energy"] == (
        [
            "`airfl sweep demo --rows --seeds 5 --out runs/demo`",
            "`airfl figures runs/demo --only energy --out docs/figures`",
        ],
        "0 to 4",
    )
    assert [one.split()[1] for one in found["accuracy-ratio"][0]] == ["sweep", "sweep", "figures"]
    assert found["learning"] == (["`make figure`"], "0 to 2")
    assert found["budget"][1] == "0"


@pytest.mark.parametrize(
    ("command", "seeds"),
    [
        ("airfl run demo run.seed=7 --out x", "7"),
        ("airfl compare demo run.seed=7 --seeds 3 --out x", "7 to 9"),
        ("airfl privacy demo", "none"),
    ],
)
def test_seeds_count_from_that_of_the_settings(reproduce: ModuleType, command: str, seeds: str) -> None:
    assert reproduce.seeds_of([command]) == seeds
    with pytest.raises(ValueError, match="seeds of such a command are not known"):
        reproduce.seeds_of(["cp a b"])


def test_every_data_file_says_its_command_and_version() -> None:
    for file in RESULTS.glob("*.csv"):
        assert f"| `{file.name}` | `python experiments/" in PAGE


def test_the_citation_is_that_of_the_repository() -> None:
    cited = dict(
        re.findall(r"^(version|date-released|title|license): (.*)$", (ROOT / "CITATION.cff").read_text(), re.M)
    )
    assert cited["version"] == __version__
    with (ROOT / "pyproject.toml").open("rb") as file:
        assert tomllib.load(file)["project"]["name"] == cited["title"] == "airfl"
    bibtex = PAGE.split("@software{")[1].split("\n}")[0]
    for name, key in (("version", "version"), ("date", "date-released"), ("title", "title"), ("license", "license")):
        assert re.search(rf"{name} += {{{re.escape(cited[key])}}}", bibtex), name
    assert f"All figures are of airfl {__version__};" in PAGE.replace("\n", " ")


def test_what_is_published_beside_ours_is_what_the_script_prints() -> None:
    page = (DOCS / "published.md").read_text()
    assert "\n".join(published.text()).rstrip() in page


def test_a_row_by_hand() -> None:
    """Fed-SPA's first row from its file, without the functions of the script."""
    with (RESULTS / "fed-spa-table-1.csv").open() as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    own = [(row["seed"], float(row["accuracy"])) for row in rows if row["label"] == "FedAvg"]
    best = fmean(max(accuracy for seed, accuracy in own if seed == wanted) for wanted in "012")
    line = f"| FedAvg | 96.87 | {best:.2f} | {best - 96.87:+.2f} | 45 | 3 |"
    assert line in (DOCS / "published.md").read_text()
