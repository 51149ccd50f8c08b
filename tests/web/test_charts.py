"""Charts of values in the browser: they fill their axes, which are labelled."""

from __future__ import annotations

from .client import queue, until
from .page import Page

SPREAD = """
const svg = document.querySelector(arguments[0]);
const heights = [...svg.querySelectorAll(".dot")].map((dot) => Number(dot.getAttribute("cy")));
return (Math.max(...heights) - Math.min(...heights)) / svg.viewBox.baseVal.height;
"""


def labels(page: Page, selector: str) -> list[str]:
    script = "return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent)"
    return [str(text) for text in page.run(script, selector)]


def test_a_curve_fills_its_axes_whose_labels_differ(page: Page) -> None:
    page.client.post("search", line="", visits=40, threads=1, queue=True)
    page.client.post("search", line="e4 e5", visits=40, threads=1, queue=True)
    page.client.post("search", line="e4 e5 Qh5 Ke7", visits=40, threads=1, queue=True)
    until(lambda: not any(queue(page.client)[name] for name in ("running", "waiting")), "the searches")
    page.open("/p/?line=e4,e5,Qh5,Ke7", moves=4)
    page.view("values")
    page.has(".view-values .chart:nth-of-type(1) .curve .dot")
    assert page.run(SPREAD, ".view-values .curve") > 0.6
    heights = labels(page, ".view-values .chart:nth-of-type(1) .at-y")
    assert 3 <= len(heights) == len(set(heights))
    assert labels(page, ".view-values .chart:nth-of-type(1) .at-x")[:2] == ["1", "2"]
    page.click("#first")
    page.has(".icicle .cell")
    named = ".icicle .cell[role=link][tabindex='0'][aria-label], .icicle .cell[role=img][aria-label]"
    assert page.count(".icicle .cell") == page.count(named)
    page.has(".view-values .chart:last-child .at-x")
    assert len(labels(page, ".view-values .chart:last-child .at-x")) >= 2
    assert page.errors() == []
