"""The page in a real browser: moves, transpositions, a live search, the queue, values, and evil names."""

from __future__ import annotations

import time
from typing import Any

import pytest

from .conftest import Client, until

PIECES = 'document.querySelectorAll("#board .men use").length'


class Page:
    """The page of a server in a browser."""

    def __init__(self, driver: Any, client: Client) -> None:
        self.driver = driver
        self.client = client
        driver.get("about:blank")
        self.errors()  # of a page before, whose server has gone
        driver.get(client.server.address)
        self.wait(f"return {PIECES} > 0", "the board")

    def run(self, script: str, *values: object) -> Any:
        return self.driver.execute_script(script, *values)

    def wait(self, script: str, what: str) -> Any:
        return until(lambda: self.run(script), what)

    def text(self, selector: str) -> str:
        return str(self.run("return document.querySelector(arguments[0])?.textContent || ''", selector))

    def click(self, selector: str) -> None:
        self.run("document.querySelector(arguments[0]).click()", selector)

    def view(self, name: str) -> None:
        self.click(f"#tab-{name}")
        self.wait(f"return document.querySelector('.view-{name}')?.children.length > 0", f"the view {name}")

    def search_with_one_thread(self) -> None:
        """Leaves the other cores to other tests while a search goes on."""
        self.view("search")
        self.run(
            "const e = document.querySelector('#set-threads'); e.value = 1;"
            "e.dispatchEvent(new Event('input'))"
        )
        self.view("moves")

    def line(self) -> str:
        script = 'return [...document.querySelectorAll("#line button")].map((e) => e.textContent).join(" ")'
        return str(self.run(script))

    def drag(self, start: str, end: str) -> None:
        """Drags a piece with the mouse."""
        from selenium.webdriver.common.action_chains import ActionChains

        board = self.driver.find_element("css selector", "#board svg")
        step = board.size["width"] / 8

        def offset(square: str) -> tuple[int, int]:
            return round((ord(square[0]) - ord("d") - 0.5) * step), round((4.5 - int(square[1])) * step)

        chain = ActionChains(self.driver, duration=10)
        chain.move_to_element_with_offset(board, *offset(start)).click_and_hold()
        chain.move_to_element_with_offset(board, *offset(end)).release().perform()

    def press(self, selector: str) -> None:
        """Presses the mouse where an element is, for longer than a view takes to be drawn anew."""
        from selenium.webdriver.common.actions.action_builder import ActionBuilder

        box = self.run("return document.querySelector(arguments[0]).getBoundingClientRect()", selector)
        builder = ActionBuilder(self.driver)
        mouse: Any = builder.pointer_action
        mouse.move_to_location(round(box["x"] + box["width"] / 2), round(box["y"] + box["height"] / 2))
        mouse.pointer_down().pause(0.6).pointer_up()
        builder.perform()

    def errors(self) -> list[str]:
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]


@pytest.fixture
def page(driver: Any, client: Client) -> Page:
    return Page(driver, client)


def test_pieces_are_dragged_and_the_line_is_walked_by_keys(page: Page) -> None:
    page.drag("e2", "e4")
    page.wait('return document.querySelector("#line button")?.textContent === "e4"', "the move")
    page.drag("e7", "e4")  # not legal: nothing happens
    page.drag("c7", "c5")
    page.wait('return document.querySelectorAll("#line button").length === 2', "the reply")
    assert page.line() == "e4 c5"
    address = page.driver.current_url
    body = page.driver.find_element("css selector", "body")
    body.send_keys("\ue012")  # arrow left
    page.wait('return document.querySelector("#line button[aria-current]")?.textContent === "e4"', "one back")
    body.send_keys("f")
    assert page.run('return document.querySelector("#gauge").classList.contains("flipped")')
    page.driver.get(address)  # the link opens the same again
    page.wait('return document.querySelectorAll("#line button").length === 2', "the line")
    assert page.line() == "e4 c5"
    assert page.errors() == []


def test_castling_of_chess960_is_dragged_onto_the_rook_or_to_where_the_king_goes(page: Page) -> None:
    squares = '[...document.querySelectorAll("#board use")].map((man) => man.dataset.square)'
    page.driver.get(f"http://{page.client.host}/p/3k4/8/8/8/8/8/8/R2K3R_w_HA_-_0_1")
    for target, san, stand in (
        ("h1", "O-O", "a1 d8 f1 g1"),
        ("g1", "O-O", "a1 d8 f1 g1"),
        ("a1", "O-O-O+", "c1 d1 d8 h1"),
        ("c1", "Kc1", "a1 c1 d8 h1"),
    ):
        page.wait(f"return {squares}.sort().join(' ') === 'a1 d1 d8 h1'", "the position")
        page.drag("d1", target)
        page.wait(f"return {squares}.sort().join(' ') === '{stand}'", "king and rook")
        page.wait(f"return document.querySelector('#line [aria-current]')?.textContent === '{san}'", san)
        page.click("#first")
    assert page.errors() == []


def test_a_transposition_is_drawn_once_and_leads_on(page: Page) -> None:
    page.view("graph")
    page.run(
        'for (const [id, value] of [["graph-share", 10], ["graph-most", 300], ["graph-depth", 6]]) {'
        " const e = document.getElementById(id); e.value = value;"
        ' e.dispatchEvent(new Event("input")); e.dispatchEvent(new Event("change")); }'
    )
    shared = ".graph-svg .node.shared"
    page.wait(f'return document.querySelectorAll("{shared}").length > 0', "a transposition")
    names = page.run(
        'return [...document.querySelectorAll(".graph-svg .node title")]'
        '.map((e) => e.textContent.split("\\n")[1])'
    )
    assert len(names) == len(set(names))
    page.run(f'document.querySelector("{shared}").dispatchEvent(new MouseEvent("click"))')
    page.wait('return document.querySelectorAll("#line button").length > 1', "its line")
    page.wait('return document.querySelectorAll(".graph-svg .node.root").length === 1', "its graph")


def test_a_search_is_seen_grow_goes_on_without_the_page_and_stops(page: Page) -> None:
    page.search_with_one_thread()
    page.click("#start")
    numbers = (
        'return Number(document.querySelector("[data-counter=visits]")?.textContent.replaceAll(",", "") || 0)'
    )
    first = page.wait(numbers, "the counters")
    page.wait(f"return (() => {{ {numbers} }})() > {first}", "more visits")
    table = 'return Number(document.querySelector(".moves .figure").textContent.replaceAll(",", ""))'
    page.wait(f"return (() => {{ {table} }})() > 300", "the moves to follow")
    for _ in range(5):  # its aim may move before it comes; a view that swallows clicks does each
        page.press(".move")
        if page.run('return document.querySelectorAll("#line button").length === 1'):
            break
    page.wait('return document.querySelectorAll("#line button").length >= 1', "a click amid the redrawing")
    page.driver.get("about:blank")
    running = page.client.server.served.queue.as_dict()["running"][0]
    seen = running["facts"]["counters"]["visits"]
    page = Page(page.driver, page.client)
    assert page.wait(numbers, "the counters again") >= seen
    page.click("#stop")
    page.wait('return document.querySelector("#stop").hidden', "the end")
    assert "visits" in page.text("#counters")
    page.wait(f"return (() => {{ {table} }})() >= {seen} / 4", "what was saved")


def test_a_game_of_script_tags_is_shown_as_text_queued_and_drawn_as_a_curve(page: Page) -> None:
    evil = "<script>document.title='owned'</script>"
    text = f'[White "{evil}"]\n[Black "<img src=x onerror=alert(1)>"]\n\n1. e4 {{{evil}}} e5 2. Nf3 *\n'
    page.run(
        'document.querySelector("#exchange").open = true;'
        'document.querySelector("#text").value = arguments[0]',
        text,
    )
    page.click("#load")
    page.wait('return !document.querySelector("#game").hidden', "the game")
    assert evil in page.text("#game")
    assert "owned" not in page.driver.title
    assert page.run("return document.querySelectorAll('#game *:not(span)').length") == 0
    page.view("values")
    page.wait('return document.querySelectorAll(".curve .dot").length >= 3', "the curve")
    page.wait('return document.querySelectorAll(".icicle .cell").length > 3', "the icicle")
    page.view("search")
    page.run(
        'const e = document.querySelector("#set-until"); e.value = "350"; e.dispatchEvent(new Event("input"))'
    )
    page.click("#queue-game")
    page.wait('return document.querySelector(".jobs .done, .jobs .running") !== null', "the queue")
    page.wait('return document.querySelector(".jobs .done") !== null', "the game to be searched")


def test_an_opponent_with_an_evil_name_is_found_and_prepared_for(page: Page) -> None:
    evil = "<img src=x onerror=alert(1)>"
    text = f'[White "{evil}"]\n[Black "B"]\n[Result "1-0"]\n\n1. e4 e5 2. a4 h5 1-0\n'
    page.client.ask("POST", "/api/import/pgn?name=evil.pgn&players=1", text.encode())
    until(lambda: page.client.get("players").status == 200, "the import")
    page.view("prepare")
    page.wait('return document.querySelectorAll(".answer tbody tr").length === 2', "the players")
    assert evil in page.text(".answer")
    assert page.run("return document.querySelectorAll('.answer img').length") == 0
    page.run("document.querySelector('.answer button.link').click()")
    page.wait('return document.querySelector(".answer th")?.textContent === "Line"', "his moves")
    page.view("novelties")
    page.wait('return document.querySelector("#novelties-min_games") !== null', "the form")
    page.run(
        'for (const id of ["min_games", "min_visits", "move_visits"]) {'
        " const e = document.querySelector(`#novelties-${id}`);"
        ' e.value = "1"; e.dispatchEvent(new Event("input")); }'
    )
    page.click(".view-novelties button.primary")
    page.wait('return document.querySelectorAll(".answer tbody tr").length > 0', "novelties")
    page.click(".answer button.link")
    page.wait('return document.querySelectorAll("#line button").length === 1', "the move on the board")


def test_two_pages_show_views_at_once_without_an_error(driver: Any, page: Page) -> None:
    first = driver.current_window_handle
    driver.switch_to.new_window("tab")
    second = Page(driver, page.client)
    for name in ("games", "graph", "values", "books", "search"):  # their answers come late
        second.click(f"#tab-{name}")
    time.sleep(0.5)
    assert second.run('return [...document.querySelector("#panel").children].map((e) => e.className)') == [
        "view-search"
    ]
    assert second.run('return document.querySelectorAll("#panel table, #panel svg").length') == 0
    driver.close()
    driver.switch_to.window(first)
    page.view("moves")
    page.drag("g1", "f3")
    page.wait(
        'return document.querySelector("#line button")?.textContent === "Nf3"', "the first page still works"
    )
    assert [error for error in page.errors() if "/api/" not in error] == []


def test_a_line_is_reviewed_and_its_moves_lead_to_the_board(page: Page) -> None:
    page.driver.get(f"http://{page.client.host}/p/?line=f3,e5,g4,Qh4")
    page.wait('return document.querySelectorAll("#line button").length === 4', "the line")
    page.view("review")
    page.run(
        'const e = document.getElementById("review-visits");'
        "e.value = 30;"
        ' e.dispatchEvent(new Event("input"));'
    )
    page.click("#review-line")
    rows = "#panel .line-table tbody tr"
    page.wait(f'return document.querySelectorAll("{rows}").length === 4', "the review")
    assert "mate" in page.text(f"{rows}:last-child")
    assert page.run('return document.querySelectorAll("#panel .curve .mark").length') > 0
    page.click(f"{rows}:nth-child(2) button")
    page.wait('return document.querySelector("#line [aria-current]")?.textContent === "e5"', "the position")
    better = page.text(f"{rows}:nth-child(3) td:nth-child(4) button")
    page.click(f"{rows}:nth-child(3) td:nth-child(4) button")
    page.wait('return document.querySelector("#to-game") !== null', "the better line")
    assert page.text("#line [aria-current]") == better.split()[0]
    page.click("#to-game")
    page.wait('return document.querySelector("#to-game") === null', "the game again")
    assert page.errors() == []
