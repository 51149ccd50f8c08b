"""Reviews in the browser: their marks are in the notation, on the curve, and found by a key."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from .client import Serve, done
from .page import HOME, Page

ROWS = "#panel .line-table tbody tr"


def reviewed(page: Page) -> None:
    page.open("/p/?line=f3,e5,g4,Qh4", moves=4)
    page.view("review")
    page.fill("#review-visits", 30)
    page.click("#review-line")
    page.has(ROWS, 4)


def test_marks_of_a_review_are_in_the_notation_and_a_key_goes_to_the_next_mistake(page: Page) -> None:
    reviewed(page)
    page.has("#line .nag")
    page.has("#line .stretch.d1")  # the better line
    assert "[%eval" not in page.text("#line")
    page.keys(HOME)
    page.reaches("")
    page.keys("m")
    page.wait("return document.querySelector('#line [aria-current] + .nag')", "a mistake")
    first = page.at()
    page.keys("m")
    page.says("#toast", "No mistake") if first == "g4" else page.reaches("g4")
    page.keys("M")
    page.wait("return document.querySelector('#line [aria-current] + .nag')", "a mistake")
    assert page.count("#panel .curve .mark") > 0
    assert page.count("#panel .curve .now:not([hidden])") == 1
    assert page.errors() == []


def test_a_review_in_a_copied_file_says_that_its_files_are_missing(
    driver: Any, page: Page, serve: Serve
) -> None:
    reviewed(page)
    client = page.client
    assert done(client, 1)["state"] == "done"
    client.end()
    path = client.server.served.path
    copied = serve(Path(shutil.copy(path, path.with_name("copy.graph"))))
    other = Page(driver, copied)
    other.open()
    other.view("review")
    other.says("#panel .jobs", "not beside this graph file")
    assert other.count("#panel .jobs button") == 0
    assert other.errors() == []
