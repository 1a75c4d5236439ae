"""docs/channels: each effect has a page with closed form, settings, figure, command and output; and the index."""

import re
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from airfl.config import Settings
from airfl.config.parts import section_of
from tests.conftest import ROOT

FOLDER = ROOT / "docs" / "channels"
SCRIPT = ROOT / "experiments" / "channel_effects.py"
INDEX = (FOLDER / "index.md").read_text()
GUIDES = ("importing", "street")
"""Pages of commands, and of a study. They have other parts than those of effects."""
PAGES = {file.stem: file.read_text() for file in sorted(FOLDER.glob("*.md")) if file.stem not in ("index", *GUIDES)}
ALL = {"index": INDEX, **PAGES, **{name: (FOLDER / f"{name}.md").read_text() for name in GUIDES}}
SCHEMES = ROOT / "docs" / "schemes"
OF_SCHEMES = ("blind",)
"""Pages of docs/schemes with a figure that the script draws."""
QUICK = ("grid", "interference", "noise", "phase", "replay", "variation")
"""Drawn in full, within some three seconds; of the others two rounds a point, whose numbers are others."""
SHORT = ("grid", "replay")
"""Of these, in `make test`."""


def draw(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    """What `python experiments/channel_effects.py` does."""
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), *arguments])
    runpy.run_path(str(SCRIPT), run_name="__main__")


def below_figure(name: str) -> tuple[str, str, list[str]]:
    """The command under a page's figure, the text between it and what it prints, and the lines of that."""
    page = (SCHEMES / f"{name}.md").read_text() if name in OF_SCHEMES else PAGES[name]
    below = page.split(f"]({name}.png)\n")[1]
    found = re.match(r"\n<!-- test: [^>]+ -->\n```sh\n(.*?)\n```\n(.*?)```text\n(.*?)```", below, re.DOTALL)
    assert found, name
    return found[1], found[2], found[3].splitlines()


def form_of(line: str) -> str:
    """A line with its numbers left out."""
    return re.sub(r"-?\b\d[\d.,]*(e[+-]?\d+)?", "#", line)


def collapsed(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in SHORT else [pytest.mark.full]) for name in (*PAGES, *OF_SCHEMES)]
)
def test_the_command_of_a_page_draws_its_figure_and_prints_what_it_quotes(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command, caption, quoted = below_figure(name)
    folder = SCHEMES if name in OF_SCHEMES else FOLDER
    assert command == f"python experiments/channel_effects.py --out docs/{folder.name} --only {name}"
    short = () if name in QUICK else ("--rounds", "2")
    draw(monkeypatch, "--out", str(tmp_path), "--only", name, *short)
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split()[0] == name
    assert ("at most 2 rounds a point" in head) == bool(short)
    assert collapsed(lines[0]) in collapsed(caption)
    assert len(lines) > 1
    of_line = str if name in QUICK else form_of
    assert [of_line(line.strip()) for line in lines[1:]] == [of_line(line) for line in quoted]
    assert [file.name for file in tmp_path.iterdir()] == [f"{name}.png"]
    with Image.open(tmp_path / f"{name}.png") as image, Image.open(folder / f"{name}.png") as shown:
        assert image.size == shown.size == (726, 341)
        assert len(image.convert("RGB").getcolors(1 << 20) or ()) > 20
        if name in QUICK:
            assert difference(image, shown) < 5


def difference(one: Image.Image, other: Image.Image) -> float:
    """Mean grey level apart, looked at from afar: fonts that sit some pixels off are 4 at most, another figure is 7."""
    far = (np.asarray(image.convert("L").resize((66, 31), Image.Resampling.BOX), dtype=float) for image in (one, other))
    return float(np.abs(next(far) - next(far)).mean())


def test_what_cannot_be_drawn_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for asked, complaint in (("warp", "invalid choice: 'warp'"), ("phase --rounds 0", "must be at least 1, got 0")):
        with pytest.raises(SystemExit, match="2"):
            draw(monkeypatch, "--out", str(tmp_path / "nowhere"), "--only", *asked.split())
        assert complaint in capsys.readouterr().err
    assert not (tmp_path / "nowhere").exists()


def test_every_effect_has_its_page_and_figure_and_every_page_its_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    from channel_effects import EFFECTS
    from channel_effects import OF_SCHEMES as DRAWN_FOR_SCHEMES

    assert sorted(PAGES) == sorted(EFFECTS)
    assert sorted(DRAWN_FOR_SCHEMES) == sorted(OF_SCHEMES)
    figures = [file for file in sorted(FOLDER.glob("*.png")) if not any(f"({file.name})" in ALL[one] for one in GUIDES)]
    assert sorted(file.stem for file in figures) == sorted(EFFECTS)
    assert max(file.stat().st_size for file in figures) < 60_000
    for name in EFFECTS:
        assert f"]({name}.md)" in INDEX.split("## Effects")[1].split("\n## ")[0], name


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_every_part(name: str) -> None:
    page = PAGES[name]
    parts = re.findall("(?m)^## (.*)", page)
    of_links = ["Which links it reaches"] if "Which links it reaches" in parts else []
    own = [part for part in parts if part.endswith(" of your own")]
    assert parts == ["The model", "Closed form", *of_links, "Settings", "What it does", *own, "Limits"]
    assert re.findall(r"!\[[^\]]+\]\(([^)]+)\)", page) == [f"{name}.png"]
    sections = dict(zip(parts, page.split("\n## ")[1:], strict=True))
    assert re.search(r"(?m)^\$\$\n[^$]+\n\$\$$", sections["Closed form"])
    assert "```toml" in sections["Settings"]
    code, tests = sections["Limits"].split("Code: ")[1].split("Tests:")
    assert re.search(r"\]\(\.\./\.\./(channels|airfl)/\S+\.py\)", code)
    assert re.search(r"\]\(\.\./\.\./tests/\S+\.py\)", tests)


def test_every_link_leads_to_a_file_or_a_heading() -> None:
    for name, page in ALL.items():
        for link in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"```.*?```", "", page, flags=re.DOTALL)):
            target, _, heading = link.partition("#")
            if target.startswith("https://"):
                continue
            file = FOLDER / target if target else FOLDER / f"{name}.md"
            assert file.is_file(), (name, link)
            if heading:
                assert heading in [slug(line) for line in re.findall("(?m)^#+ (.*)", file.read_text())], (name, link)


def slug(heading: str) -> str:
    return re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-")


def test_every_key_of_the_pages_is_a_setting() -> None:
    schema = Settings.model_json_schema()
    sections = {name: section_of(schema, name)["properties"] for name in Settings.model_fields}
    told = "\n".join(ALL.values())
    keys = re.findall(rf"(?<![/\w])({'|'.join(sections)})\.(?!(?:py|md|png)\b)([a-z_]+)\b", told)
    assert len(set(keys)) > 50
    for section, key in keys:
        assert key in sections[section], f"{section}.{key}"


def test_the_example_runs_and_keeps_law_1(capsys: pytest.CaptureFixture[str]) -> None:
    """10,000 entries: the mean square of Gaussian errors is within 5 sqrt(2/10,000) = 7% of its expectation."""
    blocks = re.findall(r"```python\n(.*?)```", INDEX, flags=re.DOTALL)
    assert len(blocks) == 1
    assert "airfl" not in blocks[0]
    assert len(blocks[0].split("\n\n")[-1].strip().splitlines()) <= 11
    exec(compile(blocks[0], "docs/channels/index.md", "exec"), {})
    error, law, share = (float(number) for number in re.findall(r"\d+\.\d+", capsys.readouterr().out))
    assert error == pytest.approx(law, rel=0.07)
    assert share == pytest.approx(1.0, abs=1e-4)
