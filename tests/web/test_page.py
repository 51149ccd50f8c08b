"""The page in a real browser: moves, a live search, the queue, values, evil names, and who reads it."""

from __future__ import annotations

import re
import threading
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from graphsearch.store.info import StoreInfo, info
from tests.query.handmade import LINES, graph_file
from tests.web.client import PATIENCE_S, Serve, queue, until
from tests.web.page import ESCAPE, LINE, MEN, Page

VISITS = '[data-counter="visits"]'
TABLE = ".moves .figure"
NODE = ".graph-svg .node:not(.root)"
EVIL = "<img src=x onerror=alert(1)>"


def number(page: Page, selector: str) -> int:
    return int(page.text(selector).replace(",", "") or 0)


def test_castling_of_chess960_is_dragged_onto_the_rook_or_to_where_the_king_goes(reading_page: Page) -> None:
    page = reading_page
    squares = '[...document.querySelectorAll("#board use")].map((man) => man.dataset.square)'
    page.open("/p/3k4/8/8/8/8/8/8/R2K3R_w_HA_-_0_1")
    for target, san, stand in (
        ("h1", "O-O", "a1 d8 f1 g1"),
        ("g1", "O-O", "a1 d8 f1 g1"),
        ("a1", "O-O-O+", "c1 d1 d8 h1"),
        ("c1", "Kc1", "a1 c1 d8 h1"),
    ):
        page.wait(f"return {squares}.sort().join(' ') === 'a1 d1 d8 h1'", "the position")
        page.drag("d1", target)
        page.wait(f"return {squares}.sort().join(' ') === '{stand}'", "king and rook")
        page.reaches(san)
        page.click("#first")
    assert page.errors() == []


def test_a_search_is_seen_grow_goes_on_without_the_page_and_stops(page: Page) -> None:
    page.open()
    page.search_with_one_thread()
    tops = "return ['#lines', '#panel', '#line'].map((s) => document.querySelector(s).offsetTop)"
    before = page.run(tops)
    page.click("#start")
    first = until(lambda: number(page, VISITS), "the counters")
    until(lambda: number(page, VISITS) > first, "more visits")
    assert page.run(tops) == before
    until(lambda: number(page, TABLE) > 300, "the moves to follow")
    for _ in range(5):  # its aim may move before it comes; a view that swallows clicks does each
        page.press(".move", seconds=0.6)  # longer than a view takes to be drawn anew
        if page.count(LINE) == 1:
            break
    page.has(LINE)  # a click amid the redrawing
    page.driver.get("about:blank")
    running = page.client.server.served.queue.as_dict()["running"][0]
    seen = running["facts"]["counters"]["visits"]
    page.open()
    assert until(lambda: number(page, VISITS), "the counters again") >= seen
    page.click("#stop")
    page.wait('return document.querySelector("#stop").hidden', "the end")
    assert "visits" in page.text("#counters")
    until(lambda: number(page, TABLE) >= seen / 4, "what was saved")


def test_arrows_of_a_search_stay_off_the_position_that_is_pointed_at(page: Page) -> None:
    page.open()
    page.search_with_one_thread()
    page.click("#start")
    page.view("graph")
    first = until(lambda: number(page, VISITS), "the counters")
    page.has("#board .arrows path")
    page.has(NODE)
    page.run(f"document.querySelector('{NODE}').dispatchEvent(new MouseEvent('mouseenter'))")
    page.has("#board svg.preview")
    until(lambda: number(page, VISITS) > first, "more visits")
    assert page.count("#board svg.preview") == 1
    assert page.count("#board .arrows path") == 0
    page.keys(ESCAPE)
    page.has("#board .arrows path")
    page.click("#stop")
    page.wait('return document.querySelector("#stop").hidden', "the end")


def test_the_graph_is_drawn_before_the_facts_of_the_file_are_known(
    reading_page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, known = reading_page, threading.Event()

    def late(path: Path) -> StoreInfo:
        known.wait(PATIENCE_S)
        return info(path)

    monkeypatch.setattr("graphsearch.web.answers.info", late)
    try:
        page.open("/p/?line=e4,e5&view=graph", moves=2)
        page.has(NODE)
        assert page.text("#file-name") == ""
    finally:
        known.set()
    page.says("#file-name", "small.graph")


def test_ways_in_that_no_search_has_gone_have_no_number(driver: Any, serve: Serve, tmp_path: Path) -> None:
    lines = LINES | {"Nf3 e5": {"d4": (18, 0.2)}}
    client = serve(graph_file(tmp_path / "a.graph", lines))
    page = Page(driver, client)
    page.open("/p/?line=e4,e5,Nf3&view=graph", moves=3)
    page.has(".view-graph tbody tr", 2)
    assert page.text(".graph-svg .node.root text") == page.text("#gauge")
    assert sorted(labels(page, ".view-graph td:nth-child(2)")) == ["39", "\u2013"]


def test_a_cell_without_a_value_is_empty(reading_page: Page) -> None:
    page = reading_page
    page.open("/p/?line=a4,h5,b4", moves=3)
    page.view("values")
    rows = ".line-table tbody tr"
    page.has(rows)
    assert page.text(f"{rows}:last-child td:nth-child(3)") == ""


def test_a_move_has_one_value_in_the_notation_in_values_and_beside_the_board(page: Page) -> None:
    page.client.post("search", line="e4 e5", visits=300, threads=1, queue=True)
    page.client.post("search", line="e4", visits=40, threads=1, queue=True)
    until(lambda: not any(queue(page.client)[name] for name in ("running", "waiting")), "the searches")
    page.open("/p/?line=e4,e5", moves=2)
    page.view("values")
    page.has("#line .worth", 2)
    scores = labels(page, ".line-table tbody td:nth-child(3)")
    assert labels(page, "#line .worth") == scores
    assert page.text("#gauge") == scores[1]
    page.click("#back")
    page.wait("return document.querySelector('#gauge').textContent === arguments[0]", "its value", scores[0])


def test_a_game_of_script_tags_is_shown_as_text_and_drawn_as_a_curve(page: Page) -> None:
    page.open()
    evil = "<script>document.title='owned'</script>"
    page.run('document.querySelector("#exchange").open = true')
    page.fill("#text", f'[White "{evil}"]\n[Black "{EVIL}"]\n\n1. e4 {{{evil}}} e5 2. Nf3 *\n')
    page.click("#load")
    page.says("#game", evil)
    assert "owned" not in page.driver.title
    assert page.count("#game *:not(span)") == 0
    page.view("values")
    until(lambda: page.count(".curve .dot") >= 3, "the curve")
    until(lambda: page.count(".icicle .cell") > 3, "the icicle")


# ------------------------------------------------------------------ who cannot see the page well reads it too
LEAST_CONTRAST = 4.5  # WCAG 2, level AA
STYLE = (files("graphsearch.web") / "static" / "style.css").read_text(encoding="utf-8")
LEVELS = [f"--q{sign}{level}" for sign in "pm" for level in (1, 2, 3)] + ["--q0"]
PAIRS = [
    *(("--ink", level) for level in LEVELS),
    *(("--q4-ink", level) for level in ("--qp4", "--qm4")),
    *((text, back) for text in ("--ink", "--soft", "--bad", "--accent") for back in ("--surface", "--paper")),
    *((text, "--raised") for text in ("--ink", "--soft")),
    *(("--accent-ink", back) for back in ("--accent", "--bad")),
    ("--paper", "--ink"),
]
LOOK = """
const name = (element) => (element.getAttribute("aria-label") || element.textContent || "").trim();
return {
  headings: document.querySelectorAll("h1").length,
  heads: [...document.querySelectorAll("th")].filter((each) => !name(each)).length,
  inside: [...document.querySelectorAll("[role=img] [tabindex], [role=img] button, [role=img] a")].length,
  nameless: [...document.querySelectorAll("button, input, select, textarea, [role=link], svg[role]")]
    .filter((each) => !name(each) && !each.labels?.length && !each.title)
    .map((each) => each.outerHTML.slice(0, 80)),
};
"""

WELL: dict[str, object] = {"headings": 1, "heads": 0, "inside": 0, "nameless": []}


def themes() -> dict[str, dict[str, str]]:
    """Returns the colours of light and of dark."""
    found = re.findall(r"(--[\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)", STYLE)
    return {
        "light": {name: light for name, light, _ in found},
        "dark": {name: dark for name, _, dark in found},
    }


def luminance(colour: str) -> float:
    parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_every_text_stands_out_from_its_ground() -> None:
    for theme, found in themes().items():
        for text, back in PAIRS:
            low, high = sorted((luminance(found[text]), luminance(found[back])))
            assert (high + 0.05) / (low + 0.05) >= LEAST_CONTRAST, (theme, text, back)


def test_every_view_has_its_names_and_no_picture_holds_what_the_keyboard_reaches(reading_page: Page) -> None:
    page = reading_page
    page.open("/p/?line=e4,e5,Nf3&at=1", moves=3)
    names: list[str] = []
    for view in page.run("return [...document.querySelectorAll('#views [role=tab]')].map((tab) => tab.id)"):
        page.click(f"#{view}")
        tabs = page.run("return [...document.querySelectorAll('#tabs [role=tab]')].map((tab) => tab.id)")
        names += [tab.removeprefix("tab-") for tab in tabs]
    assert len(names) >= 13
    for name in names:
        page.view(name)
        assert page.run(LOOK) == WELL, name
    page.view("values")
    page.has(".icicle .cell")
    page.has(".line-table th")
    assert page.run(LOOK) == WELL
    page.open("/p/8/P3k3/8/8/8/8/8/4K3_w_-_-_0_1")
    page.has(MEN, 3)
    page.drag("a7", "a8")
    page.has("#board .choice", 4)
    assert page.run(LOOK)["inside"] == 0
    assert [error for error in page.errors() if "/api/" not in error] == []


# ------------------------------------------------------------------ charts
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
    named = "[role=link][tabindex='0'][aria-label], [role=img][aria-label]"
    assert page.count(f".icicle .cell:not({named})") == 0
    page.has(".view-values .chart:last-child .at-x")
    assert len(labels(page, ".view-values .chart:last-child .at-x")) >= 2
    assert page.errors() == []
