"""The report in headless Chromium: it opens, draws and sorts, makes no requests, and is readable on a phone."""

import itertools
import math
import time
from pathlib import Path
from typing import Any

import pytest

from airfl.report.page import write_page
from tests.browser import PHONE, WITH_A_BROWSER, no_errors, small_texts
from tests.report_page import SCRIPT, make_comparison, make_sweep

PATIENCE_S = 20.0
PLOTS = """return Array.from(document.querySelectorAll("script[data-plot]")).map((island) => {
    const plot = document.getElementById(island.dataset.plot);
    return {
        name: plot.id,
        pictures: plot.querySelectorAll("svg.main-svg").length,
        shapes: plot.querySelectorAll(".scatterlayer .trace path").length,
        height: plot.getBoundingClientRect().height,
    };
})"""

pytestmark = WITH_A_BROWSER


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("report")
    made = {"comparison": make_comparison(folder / "comparison"), "sweep": make_sweep(folder / "sweep")}
    return {name: write_page(runs) for name, runs in made.items()}


@pytest.fixture(params=["comparison", "sweep"])
def opened(request: pytest.FixtureRequest, browser: Any, files: dict[str, Path]) -> Any:
    return open_page(browser, files[request.param])


@pytest.fixture
def comparison(browser: Any, files: dict[str, Path]) -> Any:
    return open_page(browser, files["comparison"])


def open_page(browser: Any, path: Path) -> Any:
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    browser.get_log("browser")  # what earlier pages left
    browser.get(path.resolve().as_uri())
    wait_for_plots(browser)
    return browser


def wait_for_plots(browser: Any) -> None:
    """Plotly draws by and by."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end and not all(plot["shapes"] for plot in browser.execute_script(PLOTS)):
        time.sleep(0.05)


def test_it_draws_every_plot_without_an_error(opened: Any) -> None:
    plots = opened.execute_script(PLOTS)
    assert {"plot-accuracy", "plot-loss", "plot-front-energy", "plot-privacy"} <= {plot["name"] for plot in plots}
    for plot in plots:
        assert plot["pictures"] >= 1, plot
        assert plot["shapes"] >= 1, plot
        assert plot["height"] >= 300, plot
    assert no_errors(opened)


def test_the_buttons_of_a_plot_are_not_hidden_from_screen_readers(opened: Any) -> None:
    """Which what is inside an image is; a plot is a labelled group."""
    asked = "return Array.from(document.querySelectorAll('.plot')).map((one) => [one.role, one.ariaLabel !== ''])"
    found = opened.execute_script(asked)
    assert found
    assert all(one == ["group", True] for one in found)


def test_it_asks_for_nothing(opened: Any) -> None:
    assert opened.execute_script("return performance.getEntriesByType('resource').map((entry) => entry.name)") == []
    buttons = opened.execute_script(
        "return Array.from(document.querySelectorAll('.modebar-btn')).map((one) => one.dataset.title)"
    )
    assert "Reset axes" in buttons
    assert not [title for title in buttons if "hare" in title or "loud" in title]  # plotly's own button for its server


def test_what_users_write_does_not_run(comparison: Any) -> None:
    assert SCRIPT in comparison.find_element("css selector", "#comparison-table").text
    assert "bold" not in [one.text for one in comparison.find_elements("css selector", "b")]
    comparison.execute_script(
        "const made = document.createElement('script'); made.textContent = 'window.ran = true';"
        "document.body.append(made)"
    )
    assert comparison.execute_script("return window.ran") is None  # the page's policy


def values(browser: Any, table: str, heading: str) -> list[float]:
    texts = browser.execute_script(
        "const table = document.getElementById(arguments[0]);"
        "const heads = Array.from(table.tHead.rows[0].cells);"
        "const place = heads.findIndex((head) => head.textContent === arguments[1]);"
        "return Array.from(table.tBodies[0].rows).map((row) => row.cells[place].dataset.value)",
        table,
        heading,
    )
    return [float(text) for text in texts]


def press(browser: Any, table: str, heading: str, key: str = "") -> str:
    """Click a heading, or press a key on it; the order it then says."""
    buttons = browser.find_elements("css selector", f"#{table} thead button")
    (button,) = [one for one in buttons if one.get_attribute("textContent") == heading]
    if key:
        button.send_keys(key)
    else:
        button.click()
    said: str = browser.execute_script("return arguments[0].closest('th').ariaSort", button)
    return said


@pytest.mark.parametrize("heading", ["accuracy %", "bits", "ε run"])
def test_a_click_sorts_numbers_and_another_turns_them_around(comparison: Any, heading: str) -> None:
    before = values(comparison, "comparison-table", heading)
    assert press(comparison, "comparison-table", heading) == "ascending"
    assert values(comparison, "comparison-table", heading) == sorted(before)
    assert press(comparison, "comparison-table", heading) == "descending"
    assert values(comparison, "comparison-table", heading) == sorted(before, reverse=True)
    assert no_errors(comparison)


def test_what_is_not_known_stays_at_the_end(comparison: Any) -> None:
    """The ideal link claims nothing, and its costs are left out beside others."""
    for heading, order in itertools.product(("ε claimed", "resource elements"), ("ascending", "descending")):
        assert press(comparison, "comparison-table", heading) == order
        *known, last = values(comparison, "comparison-table", heading)
        assert math.isnan(last)
        assert not any(math.isnan(value) for value in known)


def test_texts_are_sorted_and_one_heading_at_a_time_says_so(comparison: Any) -> None:
    press(comparison, "comparison-table", "energy")
    assert press(comparison, "comparison-table", "group", key="\ue007") == "ascending"  # the Enter key
    rows = comparison.find_elements("css selector", "#comparison-table tbody th")
    assert [row.text for row in rows] == [SCRIPT, "FedAvg, ideal", "WFL-PDP"]
    heads = comparison.find_elements("css selector", "#comparison-table thead th")
    said = [head.get_attribute("aria-sort") for head in heads]
    assert said == ["ascending", *["none"] * (len(said) - 1)]


def test_the_menu_changes_what_curves_are_drawn_against(comparison: Any) -> None:
    menu = comparison.find_element("css selector", "select.against")
    for choice in menu.find_elements("css selector", "option"):
        choice.click()
        for plot in ("plot-accuracy", "plot-loss"):
            title, kind, drawn, wanted = comparison.execute_script(
                "const plot = document.getElementById(arguments[0]);"
                "const data = JSON.parse(document.querySelector(`[data-plot=${arguments[0]}]`).textContent);"
                "const axis = plot._fullLayout.xaxis;"
                "return [axis.title.text, axis.type, plot.data.map((trace) => trace.x), data.choices[arguments[1]].x]",
                plot,
                choice.get_attribute("value"),
            )
            assert title == choice.text
            assert drawn == wanted
            assert kind == ("linear" if choice.text in ("rounds", "bits") else "log")
    comparison.find_element("css selector", "input.logarithmic").click()
    assert comparison.execute_script("return document.getElementById('plot-loss')._fullLayout.xaxis.type") == "log"
    assert no_errors(comparison)


def test_a_click_on_a_name_hides_its_curves_in_both_plots(comparison: Any) -> None:
    button = comparison.find_element("css selector", "#learning .legend button")
    count = "return document.querySelectorAll('#learning .scatterlayer .trace').length"
    before = comparison.execute_script(count)
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    assert comparison.execute_script(count) == before - 4  # a line and an area, twice
    button.click()
    assert comparison.execute_script(count) == before


def test_it_can_be_read_on_a_phone(browser: Any, opened: Any) -> None:
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", PHONE)
    browser.refresh()
    wait_for_plots(browser)
    width, inner = browser.execute_script("return [document.scrollingElement.scrollWidth, innerWidth]")
    assert inner == PHONE["width"]
    assert width <= inner
    small = small_texts(browser)
    assert small == []
    box, table, first = browser.execute_script(
        "const box = document.querySelector('#comparison .scroll'); box.scrollLeft = 200;"
        "const cell = box.querySelector('tbody th');"
        "return [box.getBoundingClientRect().left, box.querySelector('table').getBoundingClientRect().left,"
        " cell.getBoundingClientRect().left]"
    )
    assert table < box - 100  # the table has moved,
    assert first == pytest.approx(box, abs=2)  # its first column has not
    assert no_errors(browser)
