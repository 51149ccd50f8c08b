"""Hands on the page: held keys, drawing, the board by keys, menus, a phone; and files kept by digest."""

from __future__ import annotations

import gzip
import re
from typing import Any

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.actions.action_builder import ActionBuilder

from .conftest import Client, until
from .test_page import Page

LINE = "e4,e5,Nf3,Nc6,Bb5,a6,Ba4,Nf6,O-O,Be7"
LEFT, RIGHT, TAB, ENTER, ESCAPE = "\ue012", "\ue014", "\ue004", "\ue007", "\ue00c"
MOST_BYTES = 60_000


@pytest.fixture
def page(driver: Any, client: Client) -> Page:
    return Page(driver, client)


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
    """Draws with the right mouse button."""
    builder = ActionBuilder(page.driver)
    mouse: Any = builder.pointer_action
    mouse.move_to_location(*spot(page, start))
    mouse.pointer_down(button=2)
    mouse.move_to_location(*spot(page, end))
    mouse.pointer_up(button=2)
    builder.perform()


# ------------------------------------------------------------ files
def test_the_page_is_small_compressed_and_kept_by_its_digest(client: Client) -> None:
    answer = client.ask("GET", "/", Accept_Encoding="gzip")
    assert answer.headers["cache-control"] == "no-store"
    text = gzip.decompress(answer.body).decode()
    assert client.ask("GET", "/").body == text.encode()
    prefix = re.search(r'"(/static/[0-9a-f]+/)app\.js"', text)
    assert prefix is not None
    wanted, seen, total = ["app.js", *re.findall(prefix[1] + r"([\w.]+)", text)], set[str](), len(answer.body)
    while wanted:
        name = wanted.pop()
        if name in seen:
            continue
        seen.add(name)
        asset = client.ask("GET", prefix[1] + name, Accept_Encoding="gzip")
        assert (asset.status, asset.headers["content-encoding"]) == (200, "gzip")
        assert "immutable" in asset.headers["cache-control"]
        total += len(asset.body)
        wanted += re.findall(r'from "\./([\w.]+)"', gzip.decompress(asset.body).decode())
    assert total < MOST_BYTES
    assert client.ask("GET", "/static/0000000000000000/app.js").status == 404
    assert client.ask("GET", "/static/app.js").headers["cache-control"] == "no-store"


# ------------------------------------------------------------ keys
def test_a_held_key_draws_every_step_and_asks_once_it_rests(page: Page) -> None:
    page.driver.get(f"http://{page.client.host}/p/?line={LINE}&at=0")
    page.wait("return document.querySelectorAll('#line button').length === 10", "the line")
    page.run(
        "window.boards = new Set(); window.asked = 0;"
        "new MutationObserver(() => boards.add([...document.querySelectorAll('#board .men use')]"
        ".map((e) => e.dataset.square).join()))"
        ".observe(document.querySelector('#board'), {childList: true, subtree: true});"
        "const real = fetch;"
        "window.fetch = (...a) => { asked += a[0].includes('api/position'); return real(...a); };"
    )
    page.run(
        "let k = 0; const held = setInterval(() => { document.body.dispatchEvent(new KeyboardEvent('keydown',"
        " {key: 'ArrowRight', bubbles: true, repeat: k > 0})); if (++k === 10) clearInterval(held); }, 20)"
    )
    at = "return document.querySelector('#line [aria-current]')?.textContent"
    page.wait(f"{at} === 'Be7'", "the end of the line")
    page.wait("return document.title.includes('Be7')", "the answer")
    assert page.run("return boards.size") >= 10
    assert page.run("return asked") < 10
    assert page.run("return document.querySelector('#toast').hidden")
    page.driver.back()
    page.wait("return document.querySelector('#first').disabled", "the position before, by one step back")
    page.driver.forward()
    page.wait(f"{at} === 'Be7'", "the end again")
    assert page.errors() == []


def test_pieces_are_moved_by_keys_and_squares_are_said(page: Page) -> None:
    page.run("document.querySelector('#board svg').focus({ focusVisible: true })")
    page.wait("return document.querySelector('#announce').textContent === 'e2, white pawn'", "the square")
    board = page.driver.switch_to.active_element
    for key in (ENTER, "\ue013", "\ue013", ENTER):  # up, up
        board.send_keys(key)
    page.wait("return document.querySelector('#line button')?.textContent === 'e4'", "the move")
    assert page.run("return document.activeElement.getAttribute('role')") == "application"
    board.send_keys(TAB)  # the other keys are those of the line again
    page.run("document.activeElement.blur()")
    page.driver.find_element("css selector", "body").send_keys(LEFT)
    page.wait("return document.querySelector('#first').disabled", "one back")
    assert page.errors() == []


def test_arrows_and_circles_are_drawn_and_wiped_away(page: Page) -> None:
    draw(page, "e2", "e4")
    draw(page, "d4", "d4")
    assert sorted(drawn(page)) == ["circle", "path"]
    draw(page, "d4", "d4")  # once more takes it away
    assert drawn(page) == ["path"]
    page.driver.find_element("css selector", "body").send_keys(ESCAPE)
    assert drawn(page) == []
    draw(page, "g1", "f3")
    page.driver.find_element("css selector", "body").send_keys(" ")  # another position has none
    page.wait("return document.querySelectorAll('#line button').length === 1", "a move")
    assert drawn(page) == []
    assert page.errors() == []


def test_values_stand_at_the_heads_of_arrows(page: Page) -> None:
    page.wait("return document.querySelectorAll('#board .arrows .score').length > 0", "values")
    first = page.text("#board .arrows .score:last-of-type")
    assert first == page.text(".moves tbody .c-cp .chip")


# ------------------------------------------------------------ views
def test_six_views_are_tabs_and_the_others_are_in_a_menu(page: Page) -> None:
    assert page.run("return document.querySelectorAll('#tabs [role=tab]').length") == 6
    page.click("#more")
    assert page.run("return document.activeElement.getAttribute('role')") == "menuitemradio"
    page.driver.switch_to.active_element.send_keys(ESCAPE)
    page.wait("return !document.querySelector('#more-views').matches(':popover-open')", "closed by Escape")
    page.click("#more")
    page.click("#tab-sql")
    page.wait("return document.querySelector('.view-sql').children.length > 0", "the view")
    assert page.text("#more").startswith("SQL")
    assert page.run("return document.querySelectorAll('#tabs [aria-selected=true]').length") == 0
    page.driver.refresh()
    page.wait("return document.querySelector('.view-sql')?.children.length > 0", "the same view")
    page.view("moves")
    page.wait("return document.querySelector('.view-moves table') !== null", "the moves")
    assert page.errors() == []


def test_a_move_of_a_line_shows_its_position_at_once(page: Page) -> None:
    second = ".moves .pv .ply:nth-child(2)"
    page.wait(f"return document.querySelector('{second}') !== null", "lines")
    ply = page.driver.find_element("css selector", second)
    san = ply.text
    ActionChains(page.driver).move_to_element(ply).perform()
    page.wait("return !document.querySelector('#peek').hidden", "the board")
    until(lambda: f"[{san}]" in page.text("#peek-line"), "its position")
    page.driver.find_element("css selector", "body").send_keys(ESCAPE)
    assert page.run("return document.querySelector('#peek').hidden")


def test_a_phone_has_score_and_line_below_the_board(page: Page) -> None:
    size = page.driver.get_window_size()
    try:
        page.driver.set_window_size(416, 900)
        page.wait("return document.querySelector('#brief').getBoundingClientRect().height > 10", "the line")
        assert page.run(
            "const [brief, board] = ['#brief', '#board']"
            ".map((s) => document.querySelector(s).getBoundingClientRect());"
            "return Math.abs(brief.top - board.bottom) < 20"
        )
        assert page.text("#brief .chip") == page.text(".moves tbody .c-cp .chip")
        too_wide = page.run(
            "return [...document.querySelectorAll('main *')]"
            ".filter((e) => !e.closest('.scroll, .hidden, svg'))"
            ".filter((e) => e.getBoundingClientRect().right > innerWidth + 1)"
            ".map((e) => e.tagName + e.id + e.className)"
        )
        assert too_wide == []
    finally:
        page.driver.set_window_size(size["width"], size["height"])


def test_results_name_how_many_are_known(page: Page) -> None:
    games = "".join(
        f'[Result "{result}"]\n\n1. e4 e5 {result}\n\n' for result in ("1-0", "0-1", "*", "*", "*")
    )
    page.client.ask("POST", "/api/import/pgn?name=some.pgn", games.encode())
    until(lambda: page.client.get("games").json.get("games") == 5, "the import")
    page.view("games")
    page.wait(
        "return document.querySelector('.view-games tbody')?.textContent.includes('50% of 2')", "the result"
    )
    assert "3 without a result" in page.text(".view-games .lead")
