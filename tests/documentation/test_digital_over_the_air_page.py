"""docs/schemes/digital-over-the-air.md: its table is the one that `airfl compare` wrote, and its sentences follow."""

from airfl.config import load_rows
from tests.conftest import ROOT

PAGE = ROOT / "docs" / "schemes" / "digital-over-the-air.md"
TABLE = ROOT / "experiments" / "tables" / "digital-over-the-air.md"


def lines_of(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("|")]


def test_the_table_is_the_one_that_was_written() -> None:
    assert lines_of(PAGE.read_text()) == lines_of(TABLE.read_text())
    rows = load_rows(ROOT / "experiments" / "configs" / "digital-over-the-air.toml")
    assert [line.split("|")[1].strip() for line in lines_of(TABLE.read_text())[2:]] == [row.label for row in rows]


def test_what_the_page_says() -> None:
    heading, _, *rows = [[cell.strip() for cell in line[1:-1].split("|")] for line in lines_of(TABLE.read_text())]
    cells = {row[0]: dict(zip(heading, row, strict=True)) for row in rows}
    percent = {label: float(row["accuracy %"].split()[0]) for label, row in cells.items()}
    words = " ".join(PAGE.read_text().split())
    digits = [percent[label] for label in cells if " of base " in label]
    assert f"end between {min(digits)} and {max(digits)}%, beside {percent['REED']}%" in words
    assert f"the {percent['FedAvg, ideal link']}% of the ideal link, nor OBDA's {percent['OBDA']}%" in words
    one, two, five = (
        percent[f"{name} of base {b}"] for name, b in (("One digit", 3), ("Two digits", 3), ("Two digits", 5))
    )
    assert f"ends at {one}%, two digits at {two}% and two of base 5 at {five}%" in words

    def number(label: str, column: str) -> float:
        return float(cells[label][column].replace(",", ""))

    saved = number("REED", "energy") / number("One digit of base 3", "energy")
    assert 6.5 < saved < 7.5
    sequences = [number(label, "resource elements") for label in ("MD-AirComp", "MD-AirComp, half the length")]
    assert [round(number("REED", "resource elements") / each) for each in sequences] == [2, 4]
    full, half = percent["MD-AirComp"], percent["MD-AirComp, half the length"]
    assert f"at {full} and {half}%. Orthogonal sequences of 64 end at {percent['MD-AirComp, orthogonal']}%" in words
    assert f"6 points**: {full}% and {percent['MD-AirComp, fixed codebook']}% with words" in words
    assert f"here, {percent['MD-AirComp, error feedback']}%:" in words
    assert f"{cells['MD-AirComp']['ε run']} for MD-AirComp's run" in words
