"""The figure of docs/index.md: its numbers are those of the calculator and so of airfl, and it can be used by keyboard,
on a phone, on dark and light pages, and without motion."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from airfl.analysis.budget import link_budget
from airfl.config import load_settings
from tests.browser import PHONE, no_errors, small_texts, until
from tests.conftest import ROOT

SITE = ROOT / "docs" / "_site"
SCRIPTS = [SITE / "static" / name for name in ("link-budget.js", "link-budget-page.js", "first-page.js")]
NODE = shutil.which("node") or shutil.which("nodejs")
THEME = """<style>:root { color-scheme: light dark; --color-foreground-primary: CanvasText;
--color-background-border: #888; --color-background-secondary: #8883; } body { margin: 8px; font-size: 16px }</style>"""


@pytest.mark.skipif(not NODE, reason="Node.js is wanted")
@pytest.mark.parametrize("setting", [{}, {"ratio": 0.1, "maxSnrDb": 20, "epsilon": 3}])
def test_the_figures_are_those_of_airfl(setting: dict[str, float]) -> None:
    """Costs that are closed forms, and the claim; the calculator's own tests have the others."""
    required = "".join(f"require({json.dumps(str(script))});" for script in SCRIPTS)
    code = f"{required} console.log(JSON.stringify(firstPage.figuresOf({json.dumps(setting)})))"
    done = subprocess.run([str(NODE), "-e", code], capture_output=True, text=True, check=True)
    found = {row["name"]: row for row in json.loads(done.stdout)}
    keys = {"ratio": "scheme.ratio", "maxSnrDb": "power.max_snr_db", "epsilon": "privacy.epsilon"}
    own = [f"{keys[name]}={value}" for name, value in setting.items()]
    for place, scheme in enumerate(("pfels", "wfl-pdp")):
        kept = [one for one in own if scheme == "pfels" or not one.startswith("scheme.")]
        given = ["power.max_snr_db=30.0", "privacy.gains=private", *kept, f"scheme.name={scheme}"]
        budget = link_budget(load_settings("demo", given))
        assert found["elements"]["values"][place] == budget.resource_elements
        # Of 150 rounds, whose energies scatter: a standard error of 4% at most.
        assert found["energy"]["values"][place] == pytest.approx(budget.energy_j, rel=0.2)
        assert found["claimed"]["values"][place] <= setting.get("epsilon", 1.5) * (1 + 1e-12)
    assert max(*found["claimed"]["lengths"], *found["accounted"]["lengths"]) == 1.0
    assert found["elements"]["lengths"] == pytest.approx([setting.get("ratio", 0.3), 1.0], rel=1e-3)
    most = max(*found["claimed"]["values"], *found["accounted"]["values"])
    assert found["claimed"]["lengths"] == pytest.approx([one / most for one in found["claimed"]["values"]])


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("page")
    shutil.copytree(SITE / "static", folder / "_static")
    head = '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    html = f"{head}{THEME}"
    (folder / "index.html").write_text(f"{html}<title>airfl</title><body>{(SITE / 'first-page.html').read_text()}")
    return (folder / "index.html").as_uri()


def texts(browser: Any) -> list[str]:
    rows = "return [...document.querySelectorAll('#fp-rows tr')].map((row) => row.innerText)"
    return list(browser.execute_script(rows))


def test_sliders_move_the_figures_by_keyboard(browser: Any, page: str) -> None:
    from selenium.webdriver.common.keys import Keys

    browser.get(page)
    before = texts(browser)
    assert len(before) == 5
    places = [
        browser.find_element("id", f"fp-{name}").get_property("value") for name in ("ratio", "maxSnrDb", "epsilon")
    ]
    assert all(0 < int(place) < 1000 for place in places)
    slider = browser.find_element("id", "fp-ratio")
    slider.send_keys(Keys.HOME)
    assert slider.get_attribute("aria-valuetext") == "0.01"
    after = texts(browser)
    assert "38,100" in after[0]  # 254 of 25,450 entries in each of 150 rounds
    assert after[0].split()[-1] == before[0].split()[-1]  # WFL-PDP sends all
    command = browser.find_element("id", "fp-command").text
    assert command == "airfl budget demo scheme.ratio=0.01 power.max_snr_db=30 privacy.gains=private"
    assert browser.find_element("id", "fp-link").get_attribute("href").endswith("budget-in-the-browser.html#ratio=0.01")
    assert until(
        lambda: "38,100 resource elements" in browser.find_element("id", "fp-said").get_property("textContent")
    )
    assert no_errors(browser)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_fits_a_phone_and_can_be_read(browser: Any, page: str, theme: str) -> None:
    media = [{"name": "prefers-color-scheme", "value": theme}, {"name": "prefers-reduced-motion", "value": "reduce"}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": media})
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", PHONE)
    browser.get(page)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= PHONE["width"]
    assert not small_texts(browser)
    style = "return getComputedStyle(document.querySelector('.fp-bar'))"
    assert browser.execute_script(f"{style}.transitionDuration") == "0s"
    colours = {"light": "rgb(0, 114, 178)", "dark": "rgb(86, 180, 233)"}
    assert browser.execute_script(f"{style}.backgroundColor") == colours[theme]
    labelled = "return [...document.querySelectorAll('input')].every((one) => one.labels.length === 1)"
    assert browser.execute_script(labelled)
    assert no_errors(browser)


def test_the_page_has_three_doors_of_three_links() -> None:
    text = (ROOT / "docs" / "index.md").read_text().split("## Three doors")[1].split("\n## ")[0]
    doors = text.split("\n**")[1:]
    assert [door.partition("**")[0] for door in doors] == ["Wireless", "Learning", "Privacy"]
    for door in doors:
        items = [line for line in door.splitlines() if line.startswith("- ")]
        assert len(items) == 3
        for item in items:
            linked = item.split("](")[1].split(")")[0]
            assert Path(ROOT / "docs" / linked).exists(), linked
