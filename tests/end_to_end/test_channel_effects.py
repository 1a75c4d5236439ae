"""docs/channels.md: its command, its figures, its settings and its example."""

from __future__ import annotations

import re
import runpy
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from airfl.config import Settings
from airfl.config.load import read_tables, validate
from airfl.radio import check_radio
from tests.conftest import DEMO, ROOT

PAGE = (ROOT / "docs" / "channels.md").read_text()
SETTINGS = re.findall(r"```toml\n(.*?)```", PAGE, flags=re.DOTALL)
SCRIPT = ROOT / "experiments" / "channel_effects.py"
CHEAP = ("phase", "interference")


def draw(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    """What `python experiments/channel_effects.py` does."""
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), *arguments])
    runpy.run_path(str(SCRIPT), run_name="__main__")


def section_of(name: str) -> str:
    """What the page says under an effect's figure, white space collapsed."""
    return " ".join(PAGE.split(f"(channels/{name}.png)")[1].split("\n## ")[0].split())


def test_two_effects_are_drawn_and_print_what_the_page_quotes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    draw(monkeypatch, "--out", str(tmp_path), "--only", *CHEAP)
    lines = capsys.readouterr().out.splitlines()
    starts = [number for number, line in enumerate(lines) if not line.startswith("  ")]
    assert [lines[start].split()[0] for start in starts] == list(CHEAP)
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted(f"{name}.png" for name in CHEAP)
    for name, start, end in zip(CHEAP, starts, [*starts[1:], len(lines)], strict=True):
        assert end - start > 2
        for line in lines[start + 1 : end]:
            assert line.strip() in section_of(name), line
        with Image.open(tmp_path / f"{name}.png") as image:
            assert image.size == (726, 341)
            assert len(image.convert("RGB").getcolors(1 << 20) or ()) > 20


def test_an_unknown_effect_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        draw(monkeypatch, "--out", "nowhere", "--only", "warp")
    assert "invalid choice: 'warp'" in capsys.readouterr().err


def test_every_effect_has_its_figure_and_every_figure_its_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    from channel_effects import EFFECTS

    shown = re.findall(r"!\[[^\]]+\]\(channels/([a-z-]+)\.png\)", PAGE)
    assert shown == list(EFFECTS)
    files = sorted((ROOT / "docs" / "channels").glob("*"))
    assert sorted(file.name for file in files) == sorted(f"{name}.png" for name in EFFECTS)
    assert max(file.stat().st_size for file in files) < 60_000


def test_every_link_of_the_page_leads_somewhere() -> None:
    headings = [
        re.sub(r"[^a-z0-9 -]", "", line[3:].lower()).replace(" ", "-") for line in re.findall("(?m)^## .*", PAGE)
    ]
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"```.*?```", "", PAGE, flags=re.DOTALL)):
        if target.startswith("#"):
            assert target[1:] in headings, target
        else:
            assert (ROOT / "docs" / target).exists(), target


@pytest.mark.parametrize("text", SETTINGS, ids=[str(number) for number in range(len(SETTINGS))])
def test_settings_of_a_section_can_be_run(text: str) -> None:
    tables: dict[str, Any] = {name: table for name, table in read_tables(DEMO).items() if name != "compare"}
    for section, values in tomllib.loads(text).items():
        tables[section] = {**tables.get(section, {}), **values}
    check_radio(validate(tables, source="docs/channels.md"))


def test_every_key_of_the_page_is_a_setting() -> None:
    schema = Settings.model_json_schema()
    sections = {
        name: schema["$defs"][entry["$ref"].split("/")[-1]]["properties"]
        for name, entry in schema["properties"].items()
        if "$ref" in entry
    }
    keys = re.findall(rf"(?<![/\w])({'|'.join(sections)})\.(?!py\b)([a-z_]+)\b", PAGE)
    assert len(set(keys)) > 50
    for section, key in keys:
        assert key in sections[section], f"{section}.{key}"


def test_the_example_runs_and_keeps_law_1(capsys: pytest.CaptureFixture[str]) -> None:
    """10,000 entries: the mean square of Gaussian errors is within 5 sqrt(2/10,000) = 7% of its expectation."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    assert len(blocks) == 1
    assert "airfl" not in blocks[0]
    assert len(blocks[0].split("\n\n")[-1].strip().splitlines()) <= 11
    exec(compile(blocks[0], "docs/channels.md", "exec"), {})
    error, law, share = (float(number) for number in re.findall(r"\d+\.\d+", capsys.readouterr().out))
    assert error == pytest.approx(law, rel=0.07)
    assert share == pytest.approx(1.0, abs=1e-4)
