"""How the page goes from position to position: fast hands, late answers, keys, damage, and a lost server."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from graphsearch.store.store import Store

from .client import Serve, until
from .page import END, HOME, LEFT, LINE, MEN, RIGHT, TAB, Page

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
    assert page.errors() == []


def test_late_answers_neither_lead_astray_nor_hold_up_a_hand_that_is_faster(reading_page: Page) -> None:
    page = reading_page
    opened(page, SLOW + SCRIPT_ERRORS)
    # steps that overtake their answers end at the last one
    for _ in range(4):
        page.keys(LEFT)
        time.sleep(0.1)
    page.reaches("e5")
    page.keys(RIGHT, RIGHT, RIGHT)
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
    assert page.errors() == []


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
    assert page.errors() == []


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
    assert page.errors() == []


def test_an_address_with_an_illegal_line_shows_the_start_and_says_why(reading_page: Page) -> None:
    page = reading_page
    page.open("/p/?line=e2e4,e2e4")
    page.has(MEN, 32)
    assert "e2e4" in page.text("#problem")
    page.drag("d2", "d4")
    page.reaches("d4")
    assert page.text("#problem") == ""


def test_after_a_click_on_a_tab_the_keys_are_those_of_the_board(reading_page: Page) -> None:
    page = reading_page
    opened(page)
    page.driver.find_element("css selector", "#tab-values").click()
    for key, san in ((LEFT, "Bb5"), (HOME, ""), (RIGHT, "e4"), (END, "a6")):
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
    page.keys_here(TAB)  # then back with the keyboard
    page.run("document.querySelector('#tab-values').focus({ focusVisible: true })")
    page.keys_here(RIGHT)
    page.wait(f"{selected} === 'tab-search'", "the next tab")


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


def test_counters_end_with_their_server(driver: Any, serve: Serve, small_graph: Path) -> None:
    client = serve(small_graph)
    page = Page(driver, client)
    page.open()
    client.enter()
    client.post("search", threads=1)
    page.has("[data-counter=visits]")
    client.end()
    page.has("[data-counter=visits]", 0)
    assert "not connected" in page.text("#connection")
    assert page.run('return document.querySelector("#stop").hidden')
    page.run("document.querySelector('.moves .move')?.click()")
    page.says("#problem", "does not answer")
    assert page.line() == ""
    assert page.count(MEN) == 32
