"""Hands on the page: held keys, drawing, the board by keys, menus, a phone; and files kept by digest."""

from __future__ import annotations

import gzip
import re
from typing import Any

from selenium.webdriver.common.actions.action_builder import ActionBuilder

from .client import Client, until
from .page import DOWN, ENTER, ESCAPE, LEFT, RIGHT, TAB, UP, Page

MOST_BYTES = 64_000


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


def phone(page: Page) -> dict[str, int]:
    """Makes the window that of a phone; returns its size before."""
    size: dict[str, int] = page.driver.get_window_size()
    page.driver.set_window_size(416, 900)
    page.wait("return innerWidth < 500", "a narrow window")
    return size


def test_on_a_phone_no_view_is_wider_than_the_window_and_what_is_pressed_is_large_enough(
    reading_page: Page,
) -> None:
    page = reading_page
    page.open("/p/?line=e4,e5", moves=2)
    size = phone(page)
    try:
        for view in ("moves", "values", "search", "graph"):
            page.view(view)
            wide = page.run("return document.documentElement.scrollWidth - innerWidth")
            assert wide <= 0, view
            small = page.run(
                "return [...document.querySelectorAll('button, a, input, select, summary')]"
                ".filter((e) => e.checkVisibility() && !e.closest('.hidden') && !e.matches('.hidden'))"
                ".map((e) => [e.id || e.className || e.textContent, e.getBoundingClientRect()])"
                ".filter(([, box]) => box.width && (box.width < 24 || box.height < 24))"
                ".map(([name, box]) => `${name} ${Math.round(box.width)}x${Math.round(box.height)}`)"
            )
            assert small == [], view
    finally:
        page.driver.set_window_size(size["width"], size["height"])


def test_lines_are_walked_by_keys_and_every_move_has_one(reading_page: Page) -> None:
    page = reading_page
    page.open()
    page.has(".moves .pv .ply:nth-child(3)")
    row = ".moves tr:nth-child(1) .pv .ply"
    page.run("document.querySelector(arguments[0]).focus({ focusVisible: true })", row)
    page.has("#peek:not([hidden])")
    page.keys_here(RIGHT, RIGHT)
    third = page.text(f"{row}:nth-child(3)")
    assert page.run("return document.activeElement.textContent") == third
    page.says("#peek-line", f"[{third}]")
    page.keys_here(ENTER)
    page.reaches(third)
    page.click("#first")
    page.wait("return document.title.startsWith('start')", "the moves of the start")
    page.has(".moves [aria-label^='Show the line']")
    shown = page.run(
        "const all = [...document.querySelectorAll('.moves [aria-label^=\"Show the line\"]')];"
        "all[0].focus({ focusVisible: true }); return all[0].dataset.focus"
    )
    page.keys_here(ENTER)
    page.wait(
        "const e = document.querySelector(`[data-focus='${arguments[0]}']`);"
        "return e && e.textContent !== '…' && document.activeElement === e",
        "the line, and the focus in it",
        shown,
    )
    assert page.errors() == []


def test_a_promotion_is_chosen_by_keys_or_left(reading_page: Page) -> None:
    page = reading_page
    page.open("/p/7k/P7/8/8/8/8/8/K7_w_-_-_0_1")
    page.wait("return document.title.includes('start')", "the moves")
    page.drag("a7", "a8")
    page.has("#board .choice", 4)
    label = "return document.activeElement.getAttribute('aria-label')"
    assert page.run(label) == "promote to queen"
    page.keys_here(ESCAPE)
    page.has("#board .choice", 0)
    assert page.line() == ""
    page.drag("a7", "a8")
    page.has("#board .choice", 4)
    page.keys_here(DOWN)
    assert page.run(label) == "promote to knight"
    page.keys_here(ENTER)
    page.reaches("a8=N")
    assert page.errors() == []


def test_half_a_screen_has_two_columns_and_the_board_fits_into_every_window(reading_page: Page) -> None:
    page = reading_page
    page.open("/p/?line=e4,e5", moves=2)
    page.view("moves")
    size = page.driver.get_window_size()
    box = "return document.querySelector(arguments[0]).getBoundingClientRect()"
    try:
        for width, height in ((960, 740), (860, 700), (720, 450)):
            page.driver.set_window_size(width, height)
            page.wait("return Math.abs(innerWidth - arguments[0]) < 40", "the window", width)
            board, tabs = page.run(box, "#board"), page.run(box, "#tabs")
            window = page.run("return innerHeight")
            assert board["height"] <= window, width
            assert page.run("return document.documentElement.scrollWidth <= innerWidth"), width
            if width > 800:
                assert tabs["y"] < window, width
                assert tabs["x"] > board["right"], width
    finally:
        page.driver.set_window_size(size["width"], size["height"])
