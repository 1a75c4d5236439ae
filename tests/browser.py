"""Headless Chromium for tests of pages; they are skipped where it, its driver or selenium is missing."""

import importlib.util
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
AVAILABLE = bool(BROWSER and DRIVER and importlib.util.find_spec("selenium"))
MISSING = "Chromium, chromedriver and selenium are wanted"
ARGUMENTS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--window-size=1280,900"),
)
PHONE = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}


@contextmanager
def chromium(profile: Path) -> Iterator[Any]:
    """A driver of a browser with an empty profile in this folder; its log keeps what pages write."""
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


def no_errors(browser: Any) -> bool:
    """Whether pages have written no error or warning since this was last asked."""
    return [entry for entry in browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")] == []
