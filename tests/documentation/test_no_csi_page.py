"""docs/schemes/no-csi.md: its tables are those that `airfl compare` wrote, and its sentences follow from them."""

import numpy as np
import pytest

from airfl.config import load_rows
from airfl.core.building import build_scenario
from airfl.core.round_plan import plan_round
from tests.conftest import ROOT

PAGE = ROOT / "docs" / "schemes" / "no-csi.md"


def table(name: str) -> dict[str, dict[str, str]]:
    """The rows of a written comparison, from label to heading to cell."""
    lines = (ROOT / "experiments" / "tables" / f"{name}.md").read_text().splitlines()
    heading, _, *rows = [[cell.strip() for cell in line[1:-1].split("|")] for line in lines if line.startswith("|")]
    return {row[0]: dict(zip(heading, row, strict=True)) for row in rows}


def test_the_tables_are_those_that_were_written() -> None:
    for name, section in (("no-csi", "## Noise alone"), ("no-csi-impulses", "## Alpha-stable interference")):
        text = PAGE.read_text().partition(section)[2].partition("\n## ")[0]
        written = (ROOT / "experiments" / "tables" / f"{name}.md").read_text().splitlines()
        shown = [line for line in text.splitlines() if line.startswith("|")]
        assert shown == [line for line in written if line.startswith("|")]
        assert len(shown) == 16


def test_what_the_page_says() -> None:
    words = " ".join(PAGE.read_text().split())
    quiet, loud = table("no-csi"), table("no-csi-impulses")

    def percent(row: dict[str, str]) -> str:
        return row["accuracy %"].split()[0]

    def elements(label: str) -> int:
        return int(quiet[label]["resource elements"].replace(",", ""))

    assert f"reach {percent(quiet['REED'])} and {percent(quiet['Augmented affine energies'])}%" in words
    assert (
        f"{percent(quiet['Blind, 1 antenna'])}% with one antenna and {percent(quiet['Blind, 64 antennas'])}%" in words
    )
    for label in ("BAA, channel known", "FedAvg, ideal link", "PFELS, channel known"):
        assert f"{percent(quiet[label])}%" in words
    assert f"is at {quiet['FSK majority vote']['accuracy %']}%" in words
    for name in ("BAA", "PFELS"):
        pilots = elements(f"{name}, channel estimated") - elements(f"{name}, channel known")
        assert pilots == 6_600_000
    assert elements("BAA, channel known") * 2 < 6_600_000
    assert round(6_600_000 / elements("PFELS, channel known")) == 9
    assert elements("REED") == 2 * elements("BAA, channel known")
    assert elements("Blind, 1 antenna") - elements("BAA, channel known") == 330_000
    assert f"{quiet['PFELS, channel known']['ε one round']} for a round" in words
    for label in ("REED", "NCAirFL", "Augmented affine energies"):
        assert round(float(percent(loud[label]))) == 9
    assert f"keeps {percent(loud['FSK majority vote'])}%" in words
    for label in quiet:
        if label.startswith(("BAA", "Blind")):
            assert abs(float(percent(quiet[label])) - float(percent(loud[label]))) <= 2.5
    assert f"falls to {percent(loud['PFELS, channel known'])}%" in words


@pytest.mark.parametrize(("label", "error"), [("10% wrong", 0.10), ("estimated", 0.69)])
def test_channels_are_as_wrong_as_the_labels_say(label: str, error: float) -> None:
    """The rms error of an estimate over the rms gain, of 20 devices on 3,300 subcarriers: 1% is 5 standard errors."""
    rows = [row for row in load_rows(ROOT / "experiments" / "configs" / "no-csi.toml") if row.label.endswith(label)]
    assert len(rows) == 2
    for row in rows:
        scenario = build_scenario(row.settings, 25_450, np.ones(row.settings.run.devices))
        plan = plan_round(scenario, 0, scenario.memory)
        true, known = plan.channel.response, plan.estimate.response
        found = np.sqrt((np.abs(known - true) ** 2).mean() / (np.abs(true) ** 2).mean())
        assert found == pytest.approx(error, rel=0.05)
