"""Hands on the page: held keys, drawing, the board by keys, menus, a phone; and files kept by digest."""

from __future__ import annotations

import gzip
import re
from typing import Any

from selenium.webdriver.common.actions.action_builder import ActionBuilder

from .client import Client, until
from .page import ENTER, ESCAPE, LEFT, TAB, UP, Page

MOST_BYTES = 60_000


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
        "let k = 0; const held = setInterval(() => { document.body.dispatchEvent(new KeyboardEvent('keydown',"
        " {key: 'ArrowRight', bubbles: true, repeat: k > 0})); if (++k === 10) clearInterval(held); }, 20)"
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
    assert page.errors() == []


def test_pieces_are_moved_by_keys_and_arrows_are_drawn_and_wiped_away(reading_page: Page) -> None:
    page = reading_page
    page.open()
    page.run("document.querySelector('#board svg').focus({ focusVisible: true })")
    until(lambda: page.text("#announce") == "e2, white pawn", "the square")
    page.keys_here(ENTER, UP, UP, ENTER)
    page.reaches("e4")
    assert page.run("return document.activeElement.getAttribute('role')") == "application"
    page.keys_here(TAB)  # the other keys are those of the line again
    page.run("document.activeElement.blur()")
    page.keys(LEFT)
    page.has("#first:disabled")
    draw(page, "e2", "e4")
    draw(page, "d4", "d4")
    assert sorted(drawn(page)) == ["circle", "path"]
    draw(page, "d4", "d4")  # once more takes it away
    assert drawn(page) == ["path"]
    page.keys(ESCAPE)
    assert drawn(page) == []
    draw(page, "g1", "f3")
    page.keys(" ")  # another position has none
    until(page.at, "the best move")
    until(lambda: drawn(page) == [], "the board of the other position")
    assert page.errors() == []


# ------------------------------------------------------------ views
def test_six_views_are_tabs_and_the_others_are_in_a_menu(reading_page: Page) -> None:
    page = reading_page
    page.open()
    assert page.count("#tabs [role=tab]") == 6
    page.click("#more")
    assert page.run("return document.activeElement.getAttribute('role')") == "menuitemradio"
    page.keys_here(ESCAPE)
    page.wait("return !document.querySelector('#more-views').matches(':popover-open')", "closed by Escape")
    page.click("#more")
    page.view("sql")
    assert page.text("#more").startswith("SQL")
    assert page.count("#tabs [aria-selected=true]") == 0
    page.driver.refresh()
    page.has(".view-sql > *")  # the same view
    page.view("moves")
    page.has(".view-moves table")
    assert page.errors() == []


def test_a_move_of_a_line_shows_its_position_and_a_phone_has_score_and_line_below_the_board(
    reading_page: Page,
) -> None:
    page = reading_page
    page.open()
    second = ".moves .pv .ply:nth-child(2)"
    page.has(second)
    page.hover(second)
    page.has("#peek:not([hidden])")
    until(lambda: f"[{page.text(second)}]" in page.text("#peek-line"), "its position")
    page.keys(ESCAPE)
    page.has("#peek[hidden]")
    page.has("#board .arrows .score")
    chip = page.text(".moves tbody .c-cp .chip")
    assert page.text("#board .arrows .score:last-of-type") == chip  # at the head of the arrow
    size = page.driver.get_window_size()
    try:
        page.driver.set_window_size(416, 900)
        page.wait("return document.querySelector('#brief').getBoundingClientRect().height > 10", "the line")
        assert page.run(
            "const [brief, board] = ['#brief', '#board']"
            ".map((s) => document.querySelector(s).getBoundingClientRect());"
            "return Math.abs(brief.top - board.bottom) < 20"
        )
        assert page.text("#brief .chip") == chip
        too_wide = page.run(
            "return [...document.querySelectorAll('main *')]"
            ".filter((e) => !e.closest('.scroll, .hidden, svg'))"
            ".filter((e) => e.getBoundingClientRect().right > innerWidth + 1)"
            ".map((e) => e.tagName + e.id + e.className)"
        )
        assert too_wide == []
    finally:
        page.driver.set_window_size(size["width"], size["height"])
