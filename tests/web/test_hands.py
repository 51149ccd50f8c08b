"""Hands on the page: held keys, drawing, the board by keys, menus, a phone; and files kept by digest."""

from __future__ import annotations

import gzip
import re
from typing import Any

from selenium.webdriver.common.actions.action_builder import ActionBuilder

from .client import Client, until
from .page import DOWN, ENTER, ESCAPE, LEFT, MEN, RIGHT, TAB, UP, Page

MOST_BYTES = 65_000


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
def test_five_views_have_names_parts_and_addresses(reading_page: Page) -> None:
    page = reading_page
    page.open()
    views = "return [...document.querySelectorAll('#views [role=tab]')].map((tab) => tab.textContent).join()"
    assert page.run(views) == "Analysis,Games,Book and repertoire,Review,File"
    page.view("sql")
    assert "view=sql" in page.driver.current_url
    page.driver.refresh()
    page.has(".view-sql > *")  # the same view
    page.click("#view-analysis")
    page.click("#view-file")
    page.has(".view-sql > *")  # the part of it that was open
    page.run("document.querySelector('#view-file').focus({ focusVisible: true })")
    page.keys_here(LEFT, LEFT)
    page.has("#view-book[aria-selected=true]")
    page.open("/p/?line=e4,e5&view=values", moves=2)
    page.has(".view-values > *")
    page.view("moves")
    page.has(".view-moves table")
    assert page.errors() == []


def test_a_move_of_a_line_shows_its_position_and_a_phone_has_score_and_line_below_the_board(
    reading_page: Page,
) -> None:
    page = reading_page
    page.open()
    second = "#lines .pv .ply:nth-child(2)"
    page.has(second)
    page.hover(second)
    page.has("#peek:not([hidden])")
    until(lambda: f"[{page.text(second)}]" in page.text("#peek-line"), "its position")
    page.keys(ESCAPE)
    page.has("#peek[hidden]")
    page.has("#board .arrows .score")
    chip = page.text(".moves tbody .c-cp .chip")
    assert page.text("#board .arrows .score") == chip  # at the head of the arrow
    size = page.driver.get_window_size()
    try:
        page.driver.set_window_size(416, 900)
        page.wait("return innerWidth < 500", "a narrow window")
        assert page.run(
            "const [best, board] = ['section.best', '#board']"
            ".map((s) => document.querySelector(s).getBoundingClientRect());"
            "return Math.abs(best.top - board.bottom) < 20"
        )
        assert page.text("#lines .chip") == chip
        assert chip in page.text("#answer")
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
    page.has("#lines .pv .ply:nth-child(3)")
    row = "#lines li:nth-child(1) .pv .ply"
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
    page.has("#lines li", 3)
    page.keys("+", "+")
    page.has("#lines li:nth-child(5) .ply:nth-child(3)")
    page.keys("-")
    page.has("#lines li", 4)
    page.run("document.querySelector('.moves tr:last-child .move').focus({ focusVisible: true })")
    page.has("#peek:not([hidden])")  # the line of any other move
    assert page.errors() == []


def test_what_is_known_is_in_sight_and_nothing_moves(reading_page: Page) -> None:
    page = reading_page
    size = page.driver.get_window_size()
    try:
        for width, height in ((1280, 720), (1000, 700)):
            metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
            page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
            page.open()
            page.has("#lines .ply:nth-child(3)")
            whole = (
                "const panel = document.querySelector(arguments[1]).getBoundingClientRect();"
                "return [...document.querySelectorAll(arguments[0])].filter((row) => {"
                " const box = row.getBoundingClientRect();"
                " return box.height && box.top >= panel.top"
                " && box.bottom <= Math.min(panel.bottom, innerHeight);"
                "}).length"
            )
            assert page.run(whole, "#lines li", "section.best") == 3
            assert page.run(whole, ".moves tbody tr", "#panel") >= 8
            assert page.run("return document.documentElement.scrollHeight <= innerHeight")
            tops = (
                "return ['#lines', '#panel', '#line'].map((s) => document.querySelector(s)"
                ".getBoundingClientRect().top)"
            )
            before = page.run(tops)
            page.play("a3")  # a position without a search
            page.reaches("a3")
            assert page.run(tops) == before
    finally:
        page.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        page.driver.set_window_size(size["width"], size["height"])


def test_a_move_is_typed_anywhere_and_what_was_copied_is_opened(reading_page: Page) -> None:
    page = reading_page
    page.open()
    page.has(MEN)
    body = page.driver.find_element("css selector", "body")
    for text, san in (("e4", "e4"), ("c5", "c5"), ("Nf3", "Nf3")):
        body.send_keys(text[0])
        page.keys_here(*text[1:])
        page.reaches(san)
        page.wait("return document.activeElement === document.body", "the keys are the board's again")
    page.run(
        "const data = new DataTransfer(); data.setData('text/plain', '1. d4 d5 2. c4');"
        "document.body.dispatchEvent(new ClipboardEvent('paste', { clipboardData: data, bubbles: true }))"
    )
    page.reaches("c4")
    text = '[White "A"]\n\n1. e4 { [%eval 0.31] [%clk 1:02:03] } e5 { [%cal Gg1f3,Rf1b5] [%csl Ye4] } *'
    page.run(
        "const data = new DataTransfer(); data.setData('text/plain', arguments[0]);"
        "document.body.dispatchEvent(new ClipboardEvent('paste', { clipboardData: data, bubbles: true }))",
        text,
    )
    page.reaches("e5")
    page.has("#board path.mine", 2)
    page.has("#board circle.mine", 1)
    page.says("#line", "⏱1:02:03")
    assert page.errors() == []


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
    page.has("#lines .ply:nth-child(2)")
    page.run("document.querySelector('#lines .ply').focus({ focusVisible: true })")
    page.keys_here(RIGHT, ENTER)
    page.wait("return document.querySelectorAll('#line button, #elsewhere button').length > 1", "its move")
    page.click("#first")
    page.reaches("")
    page.keys(RIGHT, "w")
    page.wait("return document.activeElement.id === 'comment'", "the comment")
    page.keys_here(*"best by test", TAB)
    page.says("#line", "best by test")
    page.run("document.activeElement.blur()")
    page.run("document.querySelector('#view-analysis').focus({ focusVisible: true })")
    page.keys_here(RIGHT, RIGHT, RIGHT)
    page.has("#view-review[aria-selected=true]")
    page.has("#review-visits")
    page.fill("#review-visits", 30)
    page.run("document.querySelector('#review-line').focus({ focusVisible: true })")
    page.keys_here(ENTER)
    page.has(".view-review .curve")
    page.run("document.activeElement.blur()")
    page.keys("m")  # the next mistake, or that there is none
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
