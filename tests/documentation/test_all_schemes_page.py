"""docs/schemes/index.md: its table is the one that `airfl compare all-schemes` wrote, and its sentences follow."""

from airfl.config import load_rows
from tests.conftest import ROOT

PAGE = ROOT / "docs" / "schemes" / "index.md"
TABLE = ROOT / "experiments" / "tables" / "all-schemes.md"
ROWS = [
    [cell.strip() for cell in line[1:-1].split("|")] for line in TABLE.read_text().splitlines() if line.startswith("|")
]
CELLS = {row[0]: dict(zip(ROWS[0], row, strict=True)) for row in ROWS[2:]}


def number(label: str, column: str) -> float:
    return float(CELLS[label][column].split(" ±")[0].replace(",", ""))


def test_the_table_is_the_one_that_was_written() -> None:
    section = PAGE.read_text().partition("## One table")[2].partition("\n## ")[0]
    lines = [line for line in TABLE.read_text().splitlines() if line.startswith("|")]
    assert [line for line in section.splitlines() if line.startswith("|")] == lines
    rows = load_rows(ROOT / "experiments" / "configs" / "all-schemes.toml")
    assert list(CELLS) == [row.label for row in rows]


def test_what_the_page_says() -> None:
    words = " ".join(PAGE.read_text().split())
    charged = [label for label in CELLS if CELLS[label]["energy"] != "-"]
    bits = [label for label in charged if CELLS[label]["bits"] != "-"]
    sums = [label for label in charged if label not in bits]
    for column, least in (("energy", 25_000), ("air time s", 40_000)):
        ratio = min(number(one, column) for one in bits) / max(number(one, column) for one in sums)
        assert least <= ratio < 1.1 * least
        assert f"{least:,} times the {column.removesuffix(' s')}" in words
    accuracy = {label: number(label, "accuracy %") for label in CELLS}
    for label, said in (
        ("FedAvg, ideal link", "({}%, compared with"), ("OBDA", "(OBDA, {}%)"), ("REED", "REED ({}%)"),
        ("Augmented affine energies", "affine energies ({}%)"), ("Blind, 64 antennas", "64 antennas ({}%)"),
        ("Balanced digits", "balanced digits ({}%)"), ("MD-AirComp", "MD-AirComp ({}%)"),
    ):  # fmt: skip
        assert said.format(accuracy[label]) in words
    best_without = accuracy["REED"], accuracy["Augmented affine energies"]
    assert all(4 < accuracy["FedAvg, ideal link"] - one < 5 for one in best_without)
    assert accuracy["OBDA"] > max(accuracy.values()) - 1
    assert accuracy["DP-FedAvg over the air"] < 20 < accuracy["PFELS"]
    assert 5 < accuracy["PFELS"] - accuracy["PFELS with error feedback"] < 6
    assert accuracy["SoteriaFL-SGD"] < accuracy["CDP-SGD"] - 3
    rounds = {label: number(label, "ε one round") for label in ("PFELS", "WFL-PDP")}
    assert f"is {rounds['PFELS']:.1f} and {rounds['WFL-PDP']:.1f}" in words
    factors = [
        number(label, "ε run at least") / number(label, "ε claimed")
        for label in ("DP-Fed", "Fed-SPA", "CDP-SGD", "SoteriaFL-GD", "SoteriaFL-SGD", "LDP-SGD")
    ]
    assert 1.1 <= min(factors) < max(factors) < 3
