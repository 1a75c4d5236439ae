"""Headless Chromium for tests of pages."""

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
ARGUMENTS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--window-size=1280,900"),
)
PHONE = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
LEAST_FONT = 14
PATIENCE_S = 60.0

AVAILABLE = bool(BROWSER and DRIVER and find_spec("selenium"))
MISSING = "Chromium, chromedriver and selenium are wanted"
WITH_A_BROWSER = pytest.mark.skipif(not AVAILABLE, reason=MISSING)


@contextmanager
def chromium(profile: Path) -> Iterator[Any]:
    """Yield a driver of Chromium with an empty profile in this folder."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = str(BROWSER)
    for argument in (*ARGUMENTS, f"--user-data-dir={profile}"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(executable_path=str(DRIVER)))
    try:
        yield driver
    finally:
        driver.quit()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A driver of Chromium; the test is skipped where there is none."""
    if not AVAILABLE:
        pytest.skip(MISSING)
    with chromium(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


def until(true: Callable[[], bool]) -> bool:
    """Whether something becomes true while a page is waited for."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if true():
            return True
        time.sleep(0.05)
    return true()


def no_errors(browser: Any) -> bool:
    """Whether the page has logged neither errors nor warnings since this was asked last."""
    return [entry for entry in browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")] == []


def small_texts(browser: Any) -> list[str]:
    """Return the visible elements whose text is smaller than can be read on a phone."""
    small: list[str] = browser.execute_script(
        "return Array.from(document.querySelectorAll('body *')).filter((one) => one.checkVisibility()"
        " && Array.from(one.childNodes).some((node) => node.nodeType === 3 && node.data.trim())"
        " && !['SCRIPT', 'STYLE', 'NOSCRIPT'].includes(one.tagName)"
        " && parseFloat(getComputedStyle(one).fontSize) < arguments[0])"
        ".map((one) => `${one.tagName} ${one.textContent.slice(0, 40)} ${getComputedStyle(one).fontSize}`)",
        LEAST_FONT,
    )
    return small
