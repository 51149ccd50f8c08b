"""The page in a real browser: moves, a live search, values, evil names, who reads it, lists, repertoires."""

from __future__ import annotations

import gzip
import re
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from selenium.webdriver.common.actions.action_builder import ActionBuilder
from selenium.webdriver.common.keys import Keys

from graphsearch.book.study.repertoire import add_line, load
from graphsearch.exchange.importing import GivenFile
from graphsearch.exchange.imports import import_files
from graphsearch.store.info import StoreInfo, info
from graphsearch.store.store import Store
from graphsearch.web import gate
from tests.query.handmade import LINES, graph_file
from tests.support.positions import after_line
from tests.web.page import LINE, MEN, PATIENCE_S, Client, Page, Serve, entered, queue, until

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


def test_a_search_is_seen_grow_goes_on_without_the_page_and_stops(page: Page) -> None:
    page.open()
    page.search_with_one_thread()
    tops = "return ['#lines', '#panel', '#line'].map((s) => document.querySelector(s).offsetTop)"
    before = page.run(tops)
    page.click("#start")
    first = until(lambda: number(page, VISITS), "the counters")
    until(lambda: number(page, VISITS) > first, "more visits")
    assert page.run(tops) == before
    edge = "return document.querySelector(arguments[0]).getBoundingClientRect().right"
    figure, strip = page.run(edge, VISITS), page.run(edge, "#strip")
    assert figure < strip  # a long title gives way to it
    until(lambda: number(page, TABLE) > 300, "the moves to follow")
    for _ in range(5):  # its aim may move before it comes; a view that swallows clicks does each
        page.press(".move", seconds=0.6)  # longer than a view takes to be drawn anew
        if page.count("#board .last"):
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
    assert all("400" in error for error in page.errors())  # of a second press


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
    page.keys(Keys.ESCAPE)
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
    page = Page(driver, serve(graph_file(tmp_path / "a.graph", lines)))
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
    assert all("404" in error for error in page.errors())


def test_a_move_has_one_value_in_the_notation_in_values_and_beside_the_board(page: Page) -> None:
    page.client.post("search", line="e4 e5", visits=300, threads=1, queue=True)
    page.client.post("search", line="e4", visits=40, threads=1, queue=True)
    until(lambda: not any(queue(page.client)[name] for name in ("running", "waiting")), "the searches")
    page.open("/p/?line=e4,e5", moves=2)
    page.view("values")
    page.has("#line .worth", 2)
    page.has(".line-table tbody tr", 2)
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


def luminance(colour: str) -> float:
    parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_every_text_stands_out_from_its_ground() -> None:
    colours = re.findall(r"(--[\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)", STYLE)
    for theme in (1, 2):  # light, dark
        found = {colour[0]: luminance(colour[theme]) for colour in colours}
        for text, back in PAIRS:
            low, high = sorted((found[text], found[back]))
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
    for line in ("", "e4 e5", "e4 e5 Qh5 Ke7"):
        page.client.post("search", line=line, visits=40, threads=1, queue=True)
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
    with sized(page, 320, 800):
        page.view("moves")
        page.view("values")  # drawn for a phone, in letters that can be read
        letters = "[...document.querySelectorAll('.curve .tick, .icicle text')]"
        high = "(e) => e.getBoundingClientRect().height > 8"
        page.wait(f"return {letters}.length > 9 && {letters}.every({high})", "legible letters")


# ------------------------------------------------------------------ lists of games
LICHESS = f"""[Date "2024.05.17"]
[White "{EVIL}"]
[Black "=cmd()"]
[Result "1-0"]
[WhiteElo "2100"]

1. e4 {{ [%eval 0.18] [%clk 0:03:00] }} 1... e5 {{ [%eval 0.2] [%clk 0:03:00] }} 2. Nf3 {{ [%clk 0:02:58] }} \
2... Nc6?! {{ (0.20 -> 0.80) Inaccuracy. {EVIL} }} {{ [%clk 0:02:57] }} (2... Nf6 3. Nxe5) 3. d4 1-0

"""
CHESS_COM = """[Date "2023.01.02"]
[White "anna"]
[Black "bert"]
[Result "0-1"]

1. e4 {[%clk 0:09:58.1]} 1... c5 {[%clk 0:09:57]} 2. d4 {[%clk 0:09:50]} 2... e5 {[%clk 0:09:49.9]} 0-1

"""
DEEP = '[White "deep"]\n[Date "2022.01.01"]\n\n1. e4 ' + "(1. d4 " * 900 + ")" * 900 + " e5 *\n\n"


@pytest.fixture(scope="module")
def collection(_filled_graph: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("collection")
    path, file = folder / "games.graph", folder / "all.pgn"
    shutil.copyfile(_filled_graph, path)
    file.write_text(LICHESS + CHESS_COM + DEEP, encoding="utf-8")
    (report,) = import_files("pgn", path, [GivenFile(str(file))], players=True)
    assert (report.taken, report.problems) == (3, [])
    file.unlink()
    return path


def test_a_game_comes_with_variations_and_the_ply_of_the_position(serve: Serve, collection: Path) -> None:
    client = entered(serve, collection)
    whole = client.get("game", source=1, number=1, line="e4 e5 Nf3").json
    assert whole["ply"] == 3
    assert any(EVIL in move["comment"] for move in whole["moves"])
    assert client.get("game", source=1, number=3).json["left_out"] == []
    assert len(client.get("game", source=1, number=3).json["moves"]) == 902
    assert client.get("game", source=9, number=1).status == 400


def test_tables_have_links_and_a_click_opens_the_game_at_the_position_on_the_board(
    driver: Any, serve: Serve, collection: Path
) -> None:
    page = Page(driver, serve(collection))
    page.open("/p/?line=e4,e5", moves=2)
    page.view("list")
    listed = ".view-list tr.game"
    page.has(listed, 3)
    assert "2100" in page.text(listed)
    page.click("#list-here")
    page.has(listed, 2)  # the games that reach the position
    page.click(f"{listed} button")
    page.says("#line", "Nxe5")
    page.reaches("e5")
    assert EVIL in page.text("#game")
    with sized(page, 416, 800):  # a line of a table stays legible beside its numbers
        page.view("find")
        page.run("document.querySelector('.view-find form').requestSubmit()")
        page.has(".view-find td")
        assert page.run("return document.querySelector('.view-find td').offsetWidth") > 160
    assert page.errors() == []


# ------------------------------------------------------------------ repertoires
@pytest.fixture
def graph(tmp_path: Path) -> Path:
    return graph_file(tmp_path / "a.graph", LINES)


def moves(path: Path) -> int:
    return load(path, "white").size


def test_a_line_is_added_and_removed_and_wrong_ones_are_refused(serve: Serve, graph: Path) -> None:
    client = entered(serve, graph)
    assert client.post("repertoire-add", side="white", line="e2e4 e7e5 g1f3").json["added"] == 3
    assert client.get("position").json["repertoire"] == {"white": ["e2e4"]}
    assert client.post("repertoire-remove", side="white", line="e4 e5").json["removed"] == 2
    for given in ({"side": "white", "line": "e2e5"}, {"line": "e2e4"}, {"side": "red", "line": "e2e4"}, {}):
        for path in ("repertoire-add", "repertoire-remove"):
            assert client.post(path, **given).status == 400, given
    assert client.post("repertoire-remove", side="white", line="e4 e5").status == 400  # another tab was first


def test_a_row_of_moves_adds_its_line_and_removes_it(driver: Any, serve: Serve, graph: Path) -> None:
    page = Page(driver, serve(graph))
    page.open("/p/?line=e4,e5", moves=2)
    item = "[...document.querySelectorAll('#row-menu button')].find((e) => /repertoire/.test(e.textContent))"
    for text, count in (("Add to White\u2019s repertoire", 3), ("Remove from White\u2019s repertoire", 2)):
        page.has('[data-focus="act g1f3"]')
        page.click('[data-focus="act g1f3"]')
        assert page.run(f"return {item}.textContent") == text
        page.run(f"{item}.click()")
        if text.startswith("Remove"):
            page.says("dialog.sure", "Remove Nf3, and all that only it reaches?")
            page.click("dialog.sure .primary")
        page.has('.moves [aria-label="in White\u2019s repertoire"]', count - 2)
        assert moves(graph) == count


def test_another_tabs_line_is_shown_and_a_move_goes_if_asked(driver: Any, serve: Serve, graph: Path) -> None:
    page = Page(driver, serve(graph))
    page.open()
    page.view("repertoire")
    page.says(".view-repertoire", "It is empty")
    add_line(graph, "white", after_line("e4 e5 Nf3"))  # the other tab
    page.has('[aria-label="Remove e4"]')
    page.click('[aria-label="Remove e4"]')
    page.says("dialog.sure", "Remove e4, and all that only it reaches?")
    assert moves(graph) == 3
    page.click("dialog.sure .primary")
    until(lambda: moves(graph) == 0, "the move gone")
    page.says(".view-repertoire", "It is empty")


def test_a_fold_of_a_repertoire_opens_to_the_next_fork(driver: Any, serve: Serve, graph: Path) -> None:
    for line in ("e4 e5 Nf3 Nc6 Bb5", "e4 e5 Nf3 d6 d4", "e4 c5 Nf3", "d4 d5 c4"):
        add_line(graph, "white", after_line(line))
    add_line(graph, "white", after_line("h4", fen := "8/8/8/8/8/8/k6P/4K3 w - - 0 1"))
    page = Page(driver, serve(graph))
    page.open()
    page.view("repertoire")
    named = "return [...document.querySelectorAll('td')].some((e) => e.textContent === arguments[0])"
    page.wait(named, "the root of the weak spot", fen)
    for move in ("e4", "e5"):
        page.has(f'[aria-label="Moves after {move}"][aria-expanded=false]')
        page.click(f'[aria-label="Moves after {move}"]')
    page.has('[aria-label="Moves after Nf3"][aria-expanded=true]')


# ------------------------------------------------------------------ hands
MOST_BYTES = 66_000


def drawn(page: Page) -> list[str]:
    found = page.run("return [...document.querySelectorAll('#board .mine')].map((e) => e.tagName)")
    return [str(name) for name in found]


def spot(page: Page, square: str) -> tuple[int, int]:
    box = page.run(
        "const b = document.querySelector('#board svg').getBoundingClientRect(); return [b.x, b.y, b.width]"
    )
    step = box[2] / 8
    return round(box[0] + step * (ord(square[0]) - 96.5)), round(box[1] + step * (8.5 - int(square[1])))


def draw(page: Page, start: str, end: str) -> None:
    builder = ActionBuilder(page.driver)
    mouse: Any = builder.pointer_action
    mouse.move_to_location(*spot(page, start))
    mouse.pointer_down(button=2)
    mouse.move_to_location(*spot(page, end))
    mouse.pointer_up(button=2)
    builder.perform()


# ------------------------------------------------------------ files
def test_the_page_is_small_compressed_and_kept_by_its_digest(reader: Client) -> None:
    answer = reader.ask("GET", "/", Accept_Encoding="gzip")
    assert answer.headers["cache-control"] == "no-store"
    text = gzip.decompress(answer.body).decode()
    assert reader.ask("GET", "/").body == text.encode()
    prefix = re.search(r'"(/static/[0-9a-f]+/)app\.js"', text)
    assert prefix is not None
    wanted, seen, total = ["app.js", *re.findall(prefix[1] + r"([\w.]+)", text)], set[str](), len(answer.body)
    while wanted:
        name = wanted.pop()
        if name in seen:
            continue
        seen.add(name)
        asset = reader.ask("GET", prefix[1] + name, Accept_Encoding="gzip")
        assert (asset.status, asset.headers["content-encoding"]) == (200, "gzip")
        assert "immutable" in asset.headers["cache-control"]
        total += len(asset.body)
        wanted += re.findall(r'from "\./([\w.]+)"', gzip.decompress(asset.body).decode())
    assert total < MOST_BYTES
    assert reader.ask("GET", "/static/0000000000000000/app.js").status == 404
    assert reader.ask("GET", "/static/app.js").headers["cache-control"] == "no-store"


# ------------------------------------------------------------ keys
def test_a_held_key_draws_every_step_and_asks_once_it_rests(reading_page: Page) -> None:
    page = reading_page
    page.open("/p/?line=e4,e5,Nf3,Nc6,Bb5,a6,Ba4,Nf6,O-O,Be7&at=0", moves=10)
    page.run(
        "window.boards = new Set(); window.asked = 0;"
        "new MutationObserver(() => boards.add([...document.querySelectorAll('#board .men use')]"
        ".map((e) => e.dataset.square).join()))"
        ".observe(document.querySelector('#board'), {childList: true, subtree: true});"
        "const real = fetch;"
        "window.fetch = (...a) => { asked += a[0].includes('api/position'); return real(...a); };"
    )
    page.run(
        "const held = (k) => new KeyboardEvent('keydown', {key: 'ArrowRight', bubbles: true, repeat: k > 0});"
        "(async () => { for (let k = 0; k < 10; ++k) { document.body.dispatchEvent(held(k)); await 0; } })()"
    )
    page.reaches("Be7")
    page.wait("return document.title.includes('Be7')", "the answer")
    assert page.run("return boards.size") >= 10
    assert page.run("return asked") < 10
    assert page.run("return document.querySelector('#toast').hidden")
    page.driver.back()
    page.has("#first:disabled")  # the position before, by one step back
    page.driver.forward()
    page.reaches("Be7")


def test_pieces_are_moved_by_keys_and_arrows_are_drawn_and_wiped_away(reading_page: Page) -> None:
    page = reading_page
    page.open()
    page.run("document.querySelector('#board svg').focus({ focusVisible: true })")
    until(lambda: page.text("#announce") == "e2, white pawn", "the square")
    page.keys_here(Keys.ENTER, Keys.UP, Keys.UP, Keys.ENTER)
    page.reaches("e4")
    assert page.run("return document.activeElement.getAttribute('role')") == "application"
    page.keys_here(Keys.TAB)  # the other keys are those of the line again
    page.run("document.activeElement.blur()")
    page.keys(Keys.LEFT)
    page.has("#first:disabled")
    draw(page, "e2", "e4")
    draw(page, "d4", "d4")
    assert sorted(drawn(page)) == ["circle", "path"]
    draw(page, "d4", "d4")  # once more takes it away
    assert drawn(page) == ["path"]
    page.keys(Keys.ESCAPE)
    assert drawn(page) == []
    draw(page, "g1", "f3")
    page.keys(" ")  # another position has none
    until(page.at, "the best move")
    until(lambda: drawn(page) == [], "the board of the other position")


@contextmanager
def sized(page: Page, width: int, height: int) -> Iterator[None]:
    """Makes the page so large, then gives it the whole window again."""
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    page.wait("return innerWidth === arguments[0]", "the size", width)
    try:
        yield
    finally:
        page.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


# ------------------------------------------------------------ views
def test_five_views_have_names_parts_and_addresses(reading_page: Page) -> None:
    page = reading_page
    page.open()
    views = "return [...document.querySelectorAll('#views [role=tab]')].map((tab) => tab.textContent).join()"
    assert page.run(views) == "Analysis,Games,Book and repertoire,Review,File"
    page.view("find")
    assert "view=find" in page.driver.current_url
    page.driver.refresh()
    page.has(".view-find > *")  # the same view
    page.click("#view-analysis")
    page.click("#view-file")
    page.has(".view-find > *")  # the part of it that was open
    page.run("document.querySelector('#view-file').focus({ focusVisible: true })")
    page.keys_here(Keys.LEFT, Keys.LEFT)
    page.has("#view-book[aria-selected=true]")
    page.open("/p/?line=e4,e5&view=values", moves=2)
    page.has(".view-values > *")
    page.view("moves")
    page.has(".view-moves table")


def test_a_move_of_a_line_shows_its_position_and_a_phone_has_score_and_line_below_the_board(
    reading_page: Page,
) -> None:
    page = reading_page
    page.open()
    second = "#lines .pv .ply:nth-child(2)"
    page.has(second)
    page.hover(second)
    page.has("#board svg.preview")
    page.keys(Keys.ESCAPE)
    page.has("#board svg:not(.preview)")
    page.has("#board .arrows .score")
    chip = page.text(".moves tbody .c-cp .chip")
    assert page.text("#board .arrows .score") == chip  # at the head of the arrow
    with sized(page, 416, 800):
        assert page.run(
            "const [best, board] = ['section.best', '#board']"
            ".map((s) => document.querySelector(s).getBoundingClientRect());"
            "return Math.abs(best.top - board.bottom) < 20"
        )
        assert page.text("#lines .chip") == chip
        scrolls = "return getComputedStyle(document.querySelector('#lines .pv')).overflowX"
        assert page.run(scrolls) == "auto"  # a finger reaches the moves of a long line
        assert page.text("#brief") == page.client.get("position").json["brief"]["lines"][0]
        too_wide = page.run(
            "return [...document.querySelectorAll('main *')]"
            ".filter((e) => !e.closest('.scroll, .hidden, svg'))"
            ".filter((e) => e.getBoundingClientRect().right > innerWidth + 1)"
            ".map((e) => e.tagName + e.id + e.className)"
        )
        assert too_wide == []


def test_on_a_phone_no_view_is_too_wide_and_what_is_pressed_is_large_enough(reading_page: Page) -> None:
    page = reading_page
    page.open("/p/?line=e4,e5", moves=2)
    for width, view in product((320, 416), ("moves", "values", "search", "graph")):
        with sized(page, width, 800):
            page.view(view)
            wide = page.run(
                "return [...document.querySelectorAll('html, .views button')]"
                ".filter((e) => e.scrollWidth > e.clientWidth).map((e) => e.id)"
            )
            assert wide == [], (width, view)
            small = page.run(
                "return [...document.querySelectorAll('button, a, input, select, summary')]"
                ".filter((e) => e.checkVisibility() && !e.closest('.hidden') && !e.matches('.hidden'))"
                ".map((e) => [e.id || e.className || e.textContent, e.getBoundingClientRect()])"
                ".filter(([, box]) => box.width && (box.width < 24 || box.height < 24))"
                ".map(([name, box]) => `${name} ${Math.round(box.width)}x${Math.round(box.height)}`)"
            )
            assert small == [], view


def test_lines_are_walked_by_keys(reading_page: Page) -> None:
    page = reading_page
    page.open()
    page.has("#lines .pv .ply:nth-child(3)")
    row = "#lines li:nth-child(1) .pv .ply"
    page.run("document.querySelector(arguments[0]).focus({ focusVisible: true })", row)
    page.has("#board svg.preview")
    page.keys_here(Keys.RIGHT, Keys.RIGHT)
    third = page.text(f"{row}:nth-child(3)")
    assert page.run("return document.activeElement.textContent") == third
    page.has("#board svg.preview")
    page.keys_here(Keys.ENTER)
    page.reaches(third)
    page.click("#first")
    page.wait("return document.title.startsWith('start')", "the moves of the start")
    page.has("#lines li", 3)
    page.keys("+", "+")
    page.has("#lines li:nth-child(5) .ply:nth-child(3)")
    page.keys("-")
    page.has("#lines li", 4)


def test_what_is_known_is_in_sight_and_nothing_moves(reading_page: Page) -> None:
    page = reading_page
    whole = (
        "const panel = document.querySelector(arguments[1]).getBoundingClientRect();"
        "return [...document.querySelectorAll(arguments[0])].filter((row) => {"
        " const box = row.getBoundingClientRect();"
        " return box.height && box.top >= panel.top && box.bottom <= Math.min(panel.bottom, innerHeight);"
        "}).length"
    )
    tops = (
        "return ['#lines', '#panel', '#line']"
        ".map((s) => document.querySelector(s).getBoundingClientRect().top)"
    )
    for width, height in ((1280, 720), (1000, 700)):
        with sized(page, width, height):
            page.open()
            page.has("#lines .ply:nth-child(3)")
            assert page.run(whole, "#lines li", "section.best") == 3
            assert page.run(whole, ".moves tbody tr", "#panel") >= 8
            assert page.run("return document.documentElement.scrollHeight <= innerHeight")
            before = page.run(tops)
            page.play("a3")  # a position without a search
            page.reaches("a3")
            assert page.run(tops) == before


PASTE = (
    "const data = new DataTransfer(); data.setData('text/plain', arguments[0]);"
    "document.body.dispatchEvent(new ClipboardEvent('paste', { clipboardData: data, bubbles: true }))"
)


def test_a_move_is_typed_anywhere_and_what_was_copied_is_opened(reading_page: Page, tmp_path: Path) -> None:
    page = reading_page
    page.open()
    page.has(MEN)
    body = page.driver.find_element("css selector", "body")
    for text, san in (("e4", "e4"), ("c5", "c5"), ("Nf3", "Nf3")):
        body.send_keys(text[0])
        page.keys_here(*text[1:])
        page.reaches(san)
        page.wait("return document.activeElement === document.body", "the keys are the board's again")
    page.run(PASTE, "1. d4 d5 2. c4")
    page.reaches("c4")
    page.run(PASTE, '[White "A"]\n\n1. e4 {[%eval 0.31] [%clk 1:02:03]} e5 {[%cal Gg1f3,Rf1b5] [%csl Ye4]} *')
    page.reaches("e5")
    page.has("#board path.mine", 2)
    page.has("#board circle.mine", 1)
    page.says("#line", "⏱1:02:03")
    page.run(PASTE, '[White "B"]\n\n1. e4 e5 *')
    page.wait("return !document.querySelector('#line .worth[title=\"Time left\"]')", "the other game's moves")
    (file := tmp_path / "old.pgn").write_bytes('[White "Müller"]\n\n1. e4 *'.encode("latin-1"))
    page.driver.find_element("css selector", "#open-file").send_keys(str(file))
    page.says("#game", "Müller")
    page.run(PASTE, "1. d4 d5 2. Nf6 e6")
    page.says("#toast", "Nf6")  # where its fault is
    page.wait("return document.title.startsWith('d4 d5 ')", "the game up to there")


def test_the_keyboard_alone_plays_searches_walks_a_line_comments_and_reviews(page: Page) -> None:
    page.open()
    page.has(MEN)
    page.search_with_one_thread()
    page.run("document.activeElement.blur()")
    page.keys("e")
    page.keys_here("4")
    page.reaches("e4")
    page.keys("s")
    page.has("#stop:not([hidden])")
    page.wait("return /visits/.test(document.querySelector('#counters').textContent)", "numbers")
    page.keys("s")
    page.has("#stop[hidden]")
    page.run("document.querySelector('#start').focus({ focusVisible: true })")
    for other in ("#stop:focus", "#start:focus"):
        page.keys_here(Keys.ENTER)
        page.has(other)
    page.has("#lines .ply:nth-child(2)")
    page.run("document.querySelector('#lines .ply').focus({ focusVisible: true })")
    page.keys_here(Keys.RIGHT, Keys.ENTER)
    page.wait("return document.querySelectorAll('#line button, #elsewhere button').length > 1", "its move")
    page.click("#first")
    page.reaches("")
    page.keys(Keys.RIGHT, "w")
    page.wait("return document.activeElement.id === 'comment'", "the comment")
    page.keys_here(*"best by test", Keys.TAB)
    page.says("#line", "best by test")
    page.run("document.querySelector('#view-analysis').focus({ focusVisible: true })")
    page.keys_here(Keys.RIGHT, Keys.RIGHT, Keys.RIGHT)
    page.has("#view-review[aria-selected=true]")
    page.has("#review-visits")
    page.fill("#review-visits", 30)
    page.run("document.querySelector('#review-line').focus({ focusVisible: true })")
    page.keys_here(Keys.ENTER)
    page.has(".view-review .curve")
    page.run("document.activeElement.blur()")
    page.keys("m")  # the next mistake, or that there is none
    page.run("document.querySelector('#exchange').open = true")
    page.run("document.querySelector('#open-file').focus({ focusVisible: true })")
    frame = "getComputedStyle(document.querySelector('#open-file').parentNode).outlineStyle"
    assert page.run(f"return {frame}") == "solid"


def test_a_promotion_is_chosen_by_keys_or_left(reading_page: Page) -> None:
    page = reading_page
    page.open("/p/7k/P7/8/8/8/8/8/K7_w_-_-_0_1")
    page.wait("return document.title.includes('start')", "the moves")
    page.drag("a7", "a8")
    page.has("#board .choice", 4)
    label = "return document.activeElement.getAttribute('aria-label')"
    assert page.run(label) == "promote to queen"
    page.keys_here(Keys.ESCAPE)
    page.has("#board .choice", 0)
    assert page.line() == ""
    page.drag("a7", "a8")
    page.has("#board .choice", 4)
    page.keys_here(Keys.DOWN)
    assert page.run(label) == "promote to knight"
    page.keys_here(Keys.ENTER)
    page.reaches("a8=N")


def test_half_a_screen_has_two_columns_and_the_board_fits_into_every_window(reading_page: Page) -> None:
    page = reading_page
    page.open("/p/?line=e4,e5", moves=2)
    page.view("moves")
    box = "return document.querySelector(arguments[0]).getBoundingClientRect()"
    for width, height in ((960, 640), (860, 600), (720, 350)):
        with sized(page, width, height):
            board, tabs = page.run(box, "#board"), page.run(box, "#tabs")
            assert board["height"] <= height, width
            assert page.run("return document.documentElement.scrollWidth <= innerWidth"), width
            if width > 800:
                assert tabs["y"] < height, width
                assert tabs["x"] > board["right"], width
            else:
                assert page.run(box, "#views")["bottom"] == height


# ------------------------------------------------------------------ from position to position
# answers of the server come late, and a question that is given up fails while its answer is read
SLOW = """
const real = window.fetch;
window.fetch = async (address, given) => {
  const response = await real(address, { ...given, signal: undefined });
  const json = response.json.bind(response);
  response.json = () => new Promise((resolve, reject) => {
    given?.signal?.addEventListener("abort", () => reject(new DOMException("given up", "AbortError")));
    setTimeout(() => json().then(resolve, reject), 250);
  });
  return response;
};
"""
# every answer waits until the test lets all go
HELD = SLOW.replace(
    "setTimeout(() => json().then(resolve, reject), 250);",
    "const go = () => json().then(resolve, reject); window.held ? held.push(go) : go();",
)
LET_GO = "const waiting = held; window.held = null; waiting.forEach((go) => go());"
SCRIPT_ERRORS = (
    "window.seen = []; window.addEventListener('unhandledrejection', (e) => seen.push(String(e.reason)))"
)
GAME = "/p/?line=e4,e5,Nf3,Nc6,Bb5,a6"


def opened(page: Page, script: str = "") -> None:
    page.open(GAME, moves=6)
    page.run(script)


def man_on(page: Page, square: str) -> str:
    script = f"return document.querySelector('#board [data-square=\"{square}\"]')?.getAttribute('href') || ''"
    return str(page.run(script)).removeprefix("#piece-")


def early(page: Page, act: str = "") -> None:
    """Goes to the start, and acts before the server has told its moves."""
    page.run(f"document.querySelector('#first').click(); {act}")


def saved_pgn(page: Page) -> str:
    page.run(
        "window.saved = ''; URL.createObjectURL = (blob) => {"
        " blob.text().then((text) => { saved = text; }); return '#'; };"
    )
    page.click("#save-pgn")
    return str(page.wait("return saved", "the PGN")).rstrip()


def test_a_double_click_plays_one_move(reading_page: Page) -> None:
    page = reading_page
    page.open()
    page.has(".moves .move")
    page.run(SLOW)
    page.run(
        "const e = document.querySelector('.moves .move');"
        "e.click(); e.click(); setTimeout(() => e.click(), 60);"
        "document.querySelector('#best').click()"
    )
    page.has(LINE)
    time.sleep(0.6)
    assert len(page.line().split()) == 1
    assert len(page.driver.current_url.partition("line=")[2]) == 4
    page.driver.refresh()
    page.has(LINE, 1)
    page.has(MEN, 32)


def test_late_answers_neither_lead_astray_nor_hold_up_a_hand_that_is_faster(reading_page: Page) -> None:
    page = reading_page
    opened(page, SLOW + SCRIPT_ERRORS)
    # steps that overtake their answers end at the last one
    for _ in range(4):
        page.keys(Keys.LEFT)
        time.sleep(0.1)
    page.reaches("e5")
    page.keys(Keys.RIGHT, Keys.RIGHT, Keys.RIGHT)
    page.reaches("Bb5")
    time.sleep(0.7)
    assert (page.at(), page.run("return seen")) == ("Bb5", [])
    assert page.run("return document.querySelector('#toast').hidden")
    assert page.line() == "e4 e5 Nf3 Nc6 Bb5 a6"
    # an early move that is illegal, or of another position, is dropped
    early(page)
    page.drag("e2", "e5")
    page.wait("return document.title.startsWith('start')", "the moves of the start")
    assert (man_on(page, "e2"), man_on(page, "e5"), page.at()) == ("wp", "", "")
    page.click("#last")
    early(page)
    page.drag("e2", "e4")
    page.click("#last")  # the board moves on
    page.reaches("a6")
    page.wait("return document.title.includes('a6')", "the answer")
    time.sleep(0.6)
    assert (page.at(), page.line()) == ("a6", "e4 e5 Nf3 Nc6 Bb5 a6")
    # other early moves are played once the moves are known
    early(page, "document.querySelector('#best').click()")
    until(page.at, "the best move of the start")
    early(page, "document.body.dispatchEvent(new KeyboardEvent('keydown', {key: ' ', bubbles: true}))")
    until(page.at, "the best move by space")
    early(page)
    page.play("Nc3")
    page.reaches("Nc3")
    early(page)
    page.drag("d2", "d4")
    assert man_on(page, "d4") == "wp"  # drawn where it was dropped
    page.reaches("d4")
    page.drag("d7", "d5")  # the other side is to move, likewise
    page.reaches("d5")


def test_what_a_hand_does_while_an_answer_is_drawn_waits_for_it(reading_page: Page) -> None:
    page = reading_page
    page.open()
    page.run(
        "const real = setTimeout; window.held = [];"
        "window.setTimeout = (act, ms, ...more) => ms ? real(act, ms, ...more) : held.push(act)"
    )
    page.play("e4")
    page.wait("return held.length", "the pause before it is drawn")
    page.click(".moves .move")  # of the position that is still shown
    page.drag("d7", "d5")
    page.run("held.splice(0).forEach((act) => act())")
    page.reaches("d5")
    assert page.line() == "e4 d5"


def test_a_pawn_that_is_early_on_the_last_rank_is_promoted(reading_page: Page) -> None:
    page = reading_page
    page.open("/p/7k/P7/8/8/8/8/8/K7_w_-_-_0_1?line=Kb2", moves=1)
    page.run(SLOW)
    early(page)
    page.drag("a7", "a8")
    page.has("#board .choice", 4)
    page.run(
        "document.querySelector('#board .choice[aria-label$=knight]')"
        ".dispatchEvent(new PointerEvent('pointerdown', {bubbles: true}))"
    )
    page.reaches("a8=N")


def test_a_piece_that_is_in_the_hand_when_the_moves_come_stays_in_it(reading_page: Page) -> None:
    page = reading_page
    opened(page, f"window.held = []; {HELD}")
    early(page)
    page.drag("g1", "g1")
    assert page.count("#board .hints *") == 0
    page.run(LET_GO)
    page.has("#board .hints *", 2)
    page.drag("f3", "f3")
    page.reaches("Nf3")


def test_an_address_with_an_illegal_line_shows_the_start_and_says_why(reading_page: Page) -> None:
    page = reading_page
    page.open("/p/?line=e2e4,e2e4")
    page.has(MEN, 32)
    assert "e2e4" in page.text("#problem")
    page.drag("d2", "d4")
    page.reaches("d4")
    assert page.text("#problem") == ""
    assert all("line=e2e4+e2e4" in error for error in page.errors())


def test_after_a_click_on_a_tab_the_keys_are_those_of_the_board(reading_page: Page) -> None:
    page = reading_page
    opened(page)
    page.driver.find_element("css selector", "#tab-values").click()
    for key, san in ((Keys.LEFT, "Bb5"), (Keys.HOME, ""), (Keys.RIGHT, "e4"), (Keys.END, "a6")):
        page.keys_here(key)
        page.reaches(san)
    page.keys("t")
    assert page.count("#gauge.flipped") == 1
    selected = "return document.querySelector('#tabs [aria-selected=true]').id"
    assert page.run(selected) == "tab-values"
    page.driver.find_element("css selector", "#first").click()
    page.reaches("")
    page.keys_here(" ")
    until(page.at, "the best move by space")
    # the keyboard alone: what it has gone to has the keys
    page.run("document.querySelector('#tab-moves').focus()")
    page.keys_here(Keys.TAB)  # then back with the keyboard
    page.run("document.querySelector('#tab-values').focus({ focusVisible: true })")
    page.keys_here(Keys.RIGHT)
    page.wait(f"{selected} === 'tab-search'", "the next tab")
    assert all("404" in error for error in page.errors())


def test_a_better_line_leaves_a_way_back_to_the_game(reading_page: Page) -> None:
    page = reading_page
    page.open()
    page.run('document.querySelector("#exchange").open = true')
    page.fill("#text", '[White "Ann"]\n[Black "Bob"]\n[Result "0-1"]\n\n1. f3 e5 2. g4 Qh4# 0-1\n')
    page.click("#load")
    page.says("#game", "Ann")
    whole = saved_pgn(page)
    assert '[White "Ann"]' in whole
    assert whole.endswith("2. g4 Qh4# 0-1")
    page.click("#last")
    page.reaches("Qh4#")
    page.click("#first")
    page.reaches("")
    page.drag("e2", "e4")
    page.reaches("e4")
    assert "Ann" in page.text("#game")
    line = saved_pgn(page)
    assert '[Black "Bob"]' in line
    assert line.endswith("1. f3 ( 1. e4 ) 1... e5 2. g4 Qh4# 0-1")  # with everything
    page.click("#to-game")
    page.has("#to-game", 0)
    page.click("#last")
    page.reaches("Qh4#")
    assert page.line() == "f3 e4 e5 g4 Qh4#"  # the other move is a variation


def test_a_damaged_file_leaves_the_board_and_a_line_that_stays(page: Page, small_graph: Path) -> None:
    page.open()
    with Store.open(small_graph) as store, store.transaction():
        store.connection.execute("UPDATE block SET data = zeroblob(length(data))")
    page.drag("e2", "e4")
    page.says("#problem", "small.graph")
    page.says("#damage", "graphsearch store salvage small.graph NEW")
    assert page.count(MEN) == 32
    page.drag("e7", "e5")
    page.has(LINE, 2)  # the game goes on
    assert "small.graph" in page.text("#problem")
    assert page.run("return !document.querySelector('#damage').hidden")
    page.driver.get("about:blank")  # each answer is an error, and no more may come
    page.errors()


def test_counters_end_with_their_server_and_its_silence_with_the_next_one(
    driver: Any, serve: Serve, small_graph: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graphsearch.web.serving.Keys", lambda password: gate.Keys(password, session="kept"))
    client = entered(serve, small_graph)
    page = Page(driver, client)
    page.open()
    client.post("search", threads=1)
    page.has("[data-counter=visits]")
    client.end()
    page.has("[data-counter=visits]", 0)
    with sized(page, 416, 800):
        assert page.run("return document.querySelector('#connection').innerText").startswith("not connected")
    assert page.run('return document.querySelector("#stop").hidden')
    page.run("document.querySelector('.moves .move')?.click()")
    page.says("#problem", "does not answer")
    assert page.line() == ""
    assert page.count(MEN) == 32
    serve(small_graph, port=urlsplit(client.server.address).port)
    page.has("#connection:empty, #problem:empty", 2)
