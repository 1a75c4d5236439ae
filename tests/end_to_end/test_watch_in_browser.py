"""The page of `airfl watch` in headless Chromium, while a run goes on: `airfl watch runs/first --port 8123`."""

import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airfl.core.record import Record
from airfl.report.live import Watched, WatchServer
from airfl.simulation import run as simulate
from tests.browser import PATIENCE_S, PHONE, WITH_A_BROWSER, no_errors, small_texts, until
from tests.conftest import small_settings
from tests.small_data import OF_PEOPLE, people

pytestmark = WITH_A_BROWSER
ROUNDS = 6
PLACED = ("channel.units=physical", "topology.kind=disc")


class StepwiseRun:
    """A run in a thread that waits after every round until it is let go on."""

    def __init__(self, folder: Path, *overrides: str) -> None:
        self._steps = threading.Semaphore(0)
        settings = small_settings(*OF_PEOPLE, f"run.rounds={ROUNDS}", "run.evaluate_every=1", *overrides)
        self.accuracies: list[float] = []

        def wait(done: int, rounds: int, record: Record) -> None:
            self.accuracies.append(float(record["test_accuracy"]))
            self._steps.acquire(timeout=PATIENCE_S)

        self._thread = threading.Thread(target=lambda: simulate(settings, folder, progress=wait, data=people()))

    def start(self) -> None:
        self._thread.start()

    def go_on(self, rounds: int = 1) -> None:
        self._steps.release(rounds)

    def join(self) -> None:
        self.go_on(ROUNDS)
        self._thread.join()


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[WatchServer]:
    with WatchServer(Watched(tmp_path / "run")) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def open_page(browser: Any, server: WatchServer) -> None:
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    browser.get_log("browser")  # what earlier pages left
    browser.get(server.address)


def text(browser: Any, selector: str) -> str:
    """The text of an element, "" while it is not there."""
    said: str = browser.execute_script("return document.querySelector(arguments[0])?.textContent ?? ''", selector)
    return said


def shown(browser: Any) -> set[str]:
    """The charts that are there."""
    ids = browser.execute_script(
        "return Array.from(document.querySelectorAll('#charts figure:not([hidden])')).map((one) => one.id)"
    )
    return {one.removeprefix("chart-") for one in ids}


def test_a_run_is_followed_from_before_it_begins_until_it_has_ended(browser: Any, watched: WatchServer) -> None:
    folder = watched.watched.folder
    open_page(browser, watched)
    assert until(lambda: text(browser, "#line") == f"Waiting for {folder}, which does not exist yet.")
    going = StepwiseRun(folder, "scheme.name=pfels", *PLACED)
    going.start()
    try:
        for rounds in (1, 2):
            begun = f"Running: round {rounds} of {ROUNDS}"
            assert until(lambda begun=begun: text(browser, "#line").startswith(begun))
            assert until(lambda rounds=rounds: len(going.accuracies) == rounds)  # told after the record is written
            expected = f": {float(f'{100 * going.accuracies[-1]:.4g}'):g}% after round {rounds}"
            assert until(lambda expected=expected: text(browser, "#chart-accuracy .now") == expected)
            going.go_on()
        assert shown(browser) == {"accuracy", "loss", "beta", "energy", "epsilon"}
        assert "(J)" in text(browser, "#chart-energy figcaption")
        assert "power limits set β in" in text(browser, "#chart-beta output")
    finally:
        going.join()
    assert until(lambda: text(browser, "#line") == f"The run has ended: round {ROUNDS} of {ROUNDS}.")
    assert text(browser, "#news") == "Ended. complete; 100% done."
    assert until(lambda: browser.find_element("id", "again").is_displayed())
    devices = "return document.querySelectorAll('#map circle').length"
    assert browser.execute_script(devices) == 12  # of the whole population, selected or not
    fetched = browser.execute_script("return performance.getEntriesByType('resource').map((entry) => entry.name)")
    assert fetched
    assert all(name.startswith(f"http://127.0.0.1:{watched.server_port}/data?") for name in fetched)
    asked = len(fetched)
    time.sleep(2.0)  # longer than between two questions
    assert browser.execute_script("return performance.getEntriesByType('resource').length") == asked
    figure = browser.find_element("css selector", "#chart-accuracy svg")
    figure.send_keys("\ue012")  # the left arrow key
    assert text(browser, "#chart-accuracy output").startswith(f"Round {ROUNDS - 1}: ")
    assert no_errors(browser)


HOLD = """const send = window.fetch;
window.held = new Promise((go) => (window.letGo = go));
window.questions = 0;
window.fetch = async (...given) => { window.questions += 1; await window.held; return send(...given); };"""


def test_rounds_are_drawn_once_whatever_is_clicked_while_an_answer_is_on_its_way(browser: Any, tmp_path: Path) -> None:
    """Three questions that all ask for the second round; and energies in J are not drawn beside normalised ones."""
    settings = small_settings(*OF_PEOPLE, "run.rounds=1", "run.evaluate_every=1", "scheme.name=pfels")
    simulate(settings, tmp_path / "b", data=people())
    going = StepwiseRun(tmp_path / "a", "scheme.name=pfels", *PLACED)
    with WatchServer(Watched(tmp_path)) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        going.start()
        try:
            assert until(lambda: len(going.accuracies) == 1)
            open_page(browser, server)
            drawn = "return document.querySelector('#chart-energy polyline')?.getAttribute('points') ?? ''"
            click = "document.querySelector('#points tbody tr:nth-child(2) input').click()"
            assert until(lambda: len(browser.find_elements("css selector", "#points tbody input")) == 2)
            browser.execute_script(click)
            assert until(lambda: len(browser.find_elements("css selector", "#chart-energy polyline")) == 2)
            assert text(browser, "#chart-energy figcaption").endswith("(J; runs in other units are left out)")
            browser.execute_script(HOLD)
            assert until(lambda: browser.execute_script("return window.questions") >= 1)
            going.go_on()
            assert until(lambda: len(going.accuracies) == 2)
            browser.execute_script(f"{click}; {click}; window.letGo()")
            assert until(lambda: len(browser.execute_script(drawn).split()) >= 2)
            assert until(lambda: browser.execute_script("return window.questions") >= 4)
            assert len(browser.execute_script(drawn).split()) == 2
            assert no_errors(browser)
        finally:
            going.join()
        server.shutdown()


def test_a_digital_run_has_no_beta(browser: Any, watched: WatchServer) -> None:
    settings = small_settings(*OF_PEOPLE, "run.rounds=2", "run.evaluate_every=1", "scheme.name=fedavg")
    simulate(settings, watched.watched.folder, data=people())
    open_page(browser, watched)
    assert until(lambda: text(browser, "#line") == "The run has ended: round 2 of 2.")
    assert until(lambda: shown(browser) >= {"accuracy", "loss", "energy"})
    assert "beta" not in shown(browser)
    assert "(normalised)" in text(browser, "#chart-energy figcaption")


def test_points_are_chosen_and_the_page_can_be_read_on_a_phone(browser: Any, tmp_path: Path) -> None:
    settings = small_settings(*OF_PEOPLE, "run.rounds=2", "run.evaluate_every=1", "scheme.name=pfels")
    simulate(settings, tmp_path / "a<b>", data=people())
    shutil.copytree(tmp_path / "a<b>", tmp_path / "second")
    with WatchServer(Watched(tmp_path)) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", PHONE)
        browser.get(server.address)
        curves = "return document.querySelectorAll('#chart-accuracy polyline').length"
        assert until(lambda: browser.execute_script(curves) == 2)
        assert text(browser, "#line") == "Ended: 2 runs: 2 complete."
        assert [row.text for row in browser.find_elements("css selector", "#points tbody th")] == ["a<b>", "second"]
        browser.find_element("css selector", "#points tbody input").click()
        assert until(lambda: browser.execute_script(curves) == 1)
        width, inner = browser.execute_script("return [document.scrollingElement.scrollWidth, innerWidth]")
        assert inner == PHONE["width"]
        assert width <= inner
        assert small_texts(browser) == []
        assert no_errors(browser)
        server.shutdown()
