"""How the page goes from position to position: fast hands, late answers, keys, damage, and a lost server."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from graphsearch.store.store import Store

from .conftest import Client, Serve, until
from .test_page import Page

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
LINE = "e4,e5,Nf3,Nc6,Bb5,a6"


@pytest.fixture
def page(driver: Any, client: Client) -> Page:
    return Page(driver, client)


AT = "document.querySelector('#line [aria-current]')?.textContent || ''"


def at(page: Page) -> str:
    return str(page.run(f"return {AT}"))


def opened(page: Page, line: str = LINE) -> None:
    page.driver.get(f"http://{page.client.host}/p/?line={line}")
    count = len(line.split(","))
    page.wait(f'return document.querySelectorAll("#line button").length === {count}', "the line")


def test_a_double_click_plays_one_move(page: Page) -> None:
    page.wait('return document.querySelector(".moves .move") !== null', "the moves")
    page.run(SLOW)
    page.run(
        "const e = document.querySelector('.moves .move');"
        "e.click(); e.click(); setTimeout(() => e.click(), 60)"
    )
    page.run("document.querySelector('#best').click()")
    page.wait('return document.querySelectorAll("#line button").length > 0', "the move")
    time.sleep(0.6)
    assert len(page.line().split()) == 1
    assert len(page.driver.current_url.partition("line=")[2]) == 4
    page.driver.refresh()
    page.wait('return document.querySelectorAll("#line button").length === 1', "the same line")
    page.wait('return document.querySelectorAll("#board .men use").length === 32', "the pieces")
    assert page.errors() == []


PLACE = "return document.querySelector('#board [data-square=\"{}\"]')?.getAttribute('href') || ''"


def man_on(page: Page, square: str) -> str:
    return str(page.run(PLACE.format(square))).removeprefix("#piece-")


def early(page: Page, act: str) -> None:
    """Goes to the start, and acts before the server has told its moves."""
    page.run(f"document.querySelector('#first').click(); {act}")


def test_a_hand_that_is_faster_than_the_answer_plays_when_the_moves_are_known(page: Page) -> None:
    opened(page)
    page.run(SLOW)
    early(page, "document.querySelector('#best').click()")
    until(lambda: at(page) != "", "the best move of the start")
    early(page, "document.body.dispatchEvent(new KeyboardEvent('keydown', {key: ' ', bubbles: true}))")
    until(lambda: at(page) != "", "the best move by space")
    early(page, "document.querySelector('#san').value = 'Nc3'")
    page.run("document.querySelector('#typed').requestSubmit()")
    until(lambda: at(page) == "Nc3", "the move that was typed")
    early(page, "")
    page.drag("d2", "d4")
    assert man_on(page, "d4") == "wp"  # drawn where it was dropped
    until(lambda: at(page) == "d4", "the move that was dragged")
    page.drag("d7", "d5")  # the other side is to move, likewise
    until(lambda: at(page) == "d5", "the answer")
    assert page.errors() == []


def test_a_pawn_that_is_early_on_the_last_rank_is_promoted(page: Page) -> None:
    page.driver.get(f"http://{page.client.host}/p/7k/P7/8/8/8/8/8/K7_w_-_-_0_1?line=Kb2")
    page.wait('return document.querySelectorAll("#line button").length === 1', "the line")
    page.run(SLOW)
    early(page, "")
    page.drag("a7", "a8")
    page.wait("return document.querySelectorAll('#board .choice').length === 4", "the pieces to choose from")
    page.run(
        "document.querySelector('#board .choice[aria-label$=n]')"
        ".dispatchEvent(new PointerEvent('pointerdown', {bubbles: true}))"
    )
    until(lambda: at(page) == "a8=N", "the move")
    assert page.errors() == []


def test_an_early_move_that_is_illegal_or_of_another_position_is_dropped(page: Page) -> None:
    opened(page)
    page.run(SLOW)
    early(page, "")
    page.drag("e2", "e5")
    page.wait("return document.title.startsWith('start')", "the moves of the start")
    assert (man_on(page, "e2"), man_on(page, "e5"), at(page)) == ("wp", "", "")
    page.driver.find_element("css selector", "#last").click()
    early(page, "")
    page.drag("e2", "e4")
    page.driver.find_element("css selector", "#last").click()  # the board moves on
    until(lambda: at(page) == "a6", "the end of the line")
    page.wait("return document.title.includes('a6')", "the answer")
    time.sleep(0.6)
    assert (at(page), page.line()) == ("a6", "e4 e5 Nf3 Nc6 Bb5 a6")
    assert page.errors() == []


def test_a_piece_that_is_in_the_hand_when_the_moves_come_stays_in_it(page: Page) -> None:
    opened(page)
    page.run(f"window.held = []; {HELD}")
    early(page, "")
    page.drag("g1", "g1")
    assert page.run("return document.querySelectorAll('#board .hints *').length") == 0
    page.run(LET_GO)
    page.wait("return document.querySelectorAll('#board .hints *').length === 2", "where it may go")
    page.drag("f3", "f3")
    until(lambda: at(page) == "Nf3", "the move")
    assert page.errors() == []


def test_steps_that_overtake_their_answers_end_at_the_last_one_without_an_error(page: Page) -> None:
    opened(page)
    page.run(SLOW + SCRIPT_ERRORS)
    body = page.driver.find_element("css selector", "body")
    for _ in range(4):
        body.send_keys("\ue012")  # arrow left
        time.sleep(0.1)
    until(lambda: at(page) == "e5", "four back")
    for _ in range(3):
        body.send_keys("\ue014")  # arrow right
    until(lambda: at(page) == "Bb5", "three on")
    time.sleep(0.7)
    assert (at(page), page.run("return seen")) == ("Bb5", [])
    assert page.run("return document.querySelector('#toast').hidden")
    assert page.line() == "e4 e5 Nf3 Nc6 Bb5 a6"
    assert page.errors() == []


def test_an_address_with_an_illegal_line_shows_the_start_and_says_why(page: Page) -> None:
    page.driver.get(f"http://{page.client.host}/p/?line=e2e4,e2e4")
    page.wait('return document.querySelectorAll("#board .men use").length === 32', "the pieces")
    assert "e2e4" in page.text("#problem")
    page.drag("d2", "d4")
    page.wait('return document.querySelector("#line button")?.textContent === "d4"', "a move")
    assert page.text("#problem") == ""


def test_after_a_click_on_a_tab_the_keys_are_those_of_the_board(page: Page) -> None:
    opened(page)
    page.driver.find_element("css selector", "#tab-values").click()
    body = page.driver.switch_to.active_element
    for key, san in (
        ("\ue012", "Bb5"),
        ("\ue011", ""),
        ("\ue014", "e4"),
        ("\ue010", "a6"),
    ):  # ←, Home, →, End
        page.driver.switch_to.active_element.send_keys(key)
        page.wait(f"return ({AT}) === '{san}'", f"{san} by a key")
    body.send_keys("f")
    assert page.run('return document.querySelector("#gauge").classList.contains("flipped")')
    assert page.run("return document.querySelector('[aria-selected=true]').id") == "tab-values"
    page.driver.find_element("css selector", "#first").click()
    until(lambda: at(page) == "", "the start")
    page.driver.switch_to.active_element.send_keys(" ")
    until(lambda: at(page) != "", "the best move by space")
    # the keyboard alone: what it has gone to has the keys
    page.run("document.querySelector('#tab-moves').focus()")
    page.driver.switch_to.active_element.send_keys("\ue004")  # Tab, then back with the keyboard
    page.run("document.querySelector('#tab-values').focus({ focusVisible: true })")
    page.driver.switch_to.active_element.send_keys("\ue014")
    page.wait("return document.querySelector('[aria-selected=true]').id === 'tab-search'", "the next tab")


def test_a_better_line_leaves_a_way_back_to_the_game(page: Page) -> None:
    game = '[White "Ann"]\n[Black "Bob"]\n[Result "0-1"]\n\n1. f3 e5 2. g4 Qh4# 0-1\n'
    page.run(
        'document.querySelector("#exchange").open = true;'
        'document.querySelector("#text").value = arguments[0]',
        game,
    )
    page.click("#load")
    page.wait('return document.querySelector("#game").textContent.includes("Ann")', "the game")
    page.run(
        "window.saved = null; URL.createObjectURL = (blob) => {"
        " blob.text().then((text) => { saved = text; }); return '#'; };"
    )
    page.click("#save-pgn")
    page.wait("return saved !== null", "the PGN")
    whole = page.run("return saved")
    assert '[White "Ann"]' in whole
    assert whole.rstrip().endswith("2. g4 Qh4# 0-1")
    page.click("#last")
    page.wait("return document.querySelector('#line [aria-current]')?.textContent === 'Qh4#'", "its end")
    page.click("#first")
    until(lambda: at(page) == "", "its start")
    page.drag("e2", "e4")
    until(lambda: at(page) == "e4", "another move")
    assert "Ann" in page.text("#game")
    page.run("saved = null")
    page.click("#save-pgn")
    page.wait("return saved !== null", "the PGN")
    assert '[Black "Bob"]' in page.run("return saved")
    assert page.run("return saved").rstrip().endswith("1. e4 *")
    page.click("#to-game")
    page.wait("return document.querySelector('#to-game') === null", "the game again")
    page.click("#last")
    until(lambda: at(page) == "Qh4#", "its end again")
    assert page.line() == "f3 e4 e5 g4 Qh4#"  # the other move is a variation


def test_a_damaged_file_leaves_the_board_and_a_line_that_stays(
    driver: Any, serve: Serve, small_graph: Path
) -> None:
    client = serve(small_graph)
    page = Page(driver, client)
    with Store.open(small_graph) as store, store.transaction():
        store.connection.execute("UPDATE block SET data = zeroblob(length(data))")
    page.drag("e2", "e4")
    page.wait(
        'return document.querySelector("#problem").textContent.includes("small.graph")', "what is wrong"
    )
    assert page.run('return document.querySelectorAll("#board .men use").length') == 32
    page.drag("e7", "e5")
    page.wait('return document.querySelectorAll("#line button").length === 2', "the game goes on")
    assert "small.graph" in page.text("#problem")


def test_counters_end_with_their_server(driver: Any, serve: Serve, small_graph: Path) -> None:
    client = serve(small_graph)
    page = Page(driver, client)
    client.enter()
    client.post("search", threads=1)
    page.wait('return document.querySelector("[data-counter=visits]") !== null', "the counters")
    client.end()
    page.wait('return document.querySelector("[data-counter=visits]") === null', "their end")
    assert "not connected" in page.text("#connection")
    assert page.run('return document.querySelector("#stop").hidden')
    page.run("document.querySelector('.moves .move')?.click()")
    page.wait('return document.querySelector("#problem").textContent.includes("does not answer")', "why")
    assert page.line() == ""
    assert page.run('return document.querySelectorAll("#board .men use").length') == 32
