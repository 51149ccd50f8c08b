"""Chromium without a window, for the tests of pages."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--force-prefers-reduced-motion",
    "--disable-site-isolation-trials",  # one process draws the pages of all servers
    "--renderer-process-limit=1",
    "--process-per-site",
    "--window-size=1400,1000",
    "--app=data:,",  # a window without a toolbar, which would be a page of its own, drawn at each step
)


@pytest.fixture(scope="session")
def driver() -> Iterator[Any]:
    """A browser, one for all pages; tests without it skip themselves."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium")
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    program = shutil.which("chromedriver")
    if not browser or not program:
        pytest.skip("needs Chromium and its driver, such as Debian's packages chromium and chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for option in OPTIONS:
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    found = webdriver.Chrome(options=options, service=webdriver.ChromeService(program))
    yield found
    found.quit()
