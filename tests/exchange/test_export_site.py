"""The site of `export`: what the folder holds, and what its page does in a browser, from disk."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import chess
import pytest

from graphsearch.base.errors import ExportError
from graphsearch.exchange.exports import export
from graphsearch.exchange.selection import Selection
from graphsearch.exchange.site.export import NAMES, OWN, SHARED, script
from graphsearch.position.board import key_of
from graphsearch.query.tree import neighbourhood

from ..conftest import Cli, sql
from ..query.handmade import LINES, graph_file
from ..support.positions import after_line
from .exported import add_book, edges, known_below

PAGE = ("index.html", "site.css", "site.js")
DECLARED = r"(?:class|const|function|let) (\w+)"
EVIL = '<script>document.title = "broken"</script><b>\u2028'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return graph_file(tmp_path / "hand.graph", {line: LINES[line] for line in LINES if line != "d4"})


def rows_of(folder: Path) -> list[list[Any]]:
    """Returns the rows of all parts, as the page reads them."""
    found: list[list[Any]] = []
    for number in range(len(list((folder / "data").glob("[0-9]*.js")))):
        text = (folder / "data" / f"{number}.js").read_text("ascii")
        assert text.startswith(f"graphsearchPart({number},[")
        found += json.loads(text[text.index("[") : text.rindex(")")])
    return found


def site_of(folder: Path) -> dict[str, Any]:
    text = (folder / "data" / "site.js").read_text("ascii")
    data = json.loads(text.removeprefix("const SITE = ").rstrip().removesuffix(";"))
    assert isinstance(data, dict)
    return data


# ------------------------------------------------------------------ the data
def test_every_position_is_a_row_with_its_moves_and_ways_in(small_graph: Path, tmp_path: Path) -> None:
    report = export("site", small_graph, tmp_path / "site", Selection(min_visits=0))
    known = known_below(small_graph)
    rows = rows_of(tmp_path / "site")
    assert report.positions == len(rows) == len(known)
    assert {key_of(chess.Board(row[0])) for row in rows} == set(known)
    leads = set()
    for number, (fen, n, q, _, _, level, _, moves, _) in enumerate(rows):
        board, record = known[key_of(chess.Board(fen))]
        assert (n, abs(q) <= 10_000, level == 0) == (record.visits, True, number == 0)
        assert {move[0]: move[3] for move in moves} == {m.uci(): edge.n for m, edge in edges(board, record)}
        for uci, san, child, visits, *_ in moves:
            assert board.san(chess.Move.from_uci(uci)) == san
            if child >= 0:
                after = board.copy()
                after.push_uci(uci)
                assert key_of(chess.Board(rows[child][0])) == key_of(after)
                leads.add((number, san, visits, child))
    assert leads == {(way[0], way[1], way[2], k) for k, row in enumerate(rows) for way in row[8]}
    assert all(rows[row[8][0][0]][5] == row[5] - 1 for row in rows if row[5]), "the first one is a shortest"


def test_a_book_has_its_own_positions_values_and_reasons(file: Path, tmp_path: Path) -> None:
    add_book(file, EVIL, "black", [chess.STARTING_FEN], {"e4": -0.3, "e4 e5": 0.2})
    report = export("site", file, tmp_path / "site", Selection(book=EVIL))
    rows = rows_of(tmp_path / "site")
    assert report.positions == len(rows) == 3
    assert [row[2] for row in rows[1:]] == [-3000, 2000]
    uci, *_, value, rule = rows[0][7][0]
    assert (uci, value, bool(rule), rows[1][6]) == ("e2e4", 3000, True, "open")
    assert (site_of(tmp_path / "site")["book"], site_of(tmp_path / "site")["black"]) == (EVIL, True)


def test_the_page_names_nothing_outside_its_folder(file: Path, tmp_path: Path) -> None:
    export("site", file, tmp_path / "site")
    assert {path.name for path in (tmp_path / "site").iterdir()} == {*PAGE, "data"}
    texts = {name: (tmp_path / "site" / name).read_text("utf-8") for name in PAGE}
    addresses = {found for text in texts.values() for found in re.findall(r"https?://[^\"'\s)]+", text)}
    assert addresses == {"http://www.w3.org/2000/svg", *()}
    assert re.findall(r'(?:src|href)="([^"]*)"', texts["index.html"]) == [
        "site.css",
        "data/site.js",
        "site.js",
    ]
    assert not re.search(r"^(import|export)\b", script(), re.MULTILINE), "a classic script"


def test_the_page_of_the_explorer_exports_the_names_that_a_site_takes_from_it() -> None:
    root = files("graphsearch")
    shared = "".join((root / "web" / "static" / name).read_text("utf-8") for name in SHARED)
    own = "".join((root / "exchange" / "site" / "static" / name).read_text("utf-8") for name in OWN)
    taken = NAMES.split(", ")
    assert {*taken} <= {*re.findall(rf"^export {DECLARED}", shared, re.MULTILINE)}
    for names in (
        re.findall(rf"^(?:export )?{DECLARED}", shared, re.MULTILINE),
        [*taken, *re.findall(rf"^{DECLARED}", own, re.MULTILINE)],
    ):
        assert len(names) == len({*names}), "each part of the script is one scope"


def test_an_older_site_is_replaced_and_stays_if_there_is_nothing_to_export(
    file: Path, tmp_path: Path
) -> None:
    target = tmp_path / "site"
    export("site", file, target, Selection(depth=0, min_visits=10))
    (target / "data" / "77.js").write_text("old")
    export("site", file, target)
    assert not (target / "data" / "77.js").exists()
    with pytest.raises(ExportError, match="nothing to export"):
        export("site", file, target, Selection(roots=(after_line("a4"),), min_visits=10))
    assert (target / "index.html").exists()
    shutil.copy(file, target / "own.graph")
    with pytest.raises(ExportError, match="holds other files"):
        export("site", target / "own.graph", target)


def test_the_command_says_what_it_wrote(cli: Cli, file: Path, tmp_path: Path) -> None:
    words = ("export", "--format", "site", "--store", file, "-o", tmp_path / "site")
    assert "5 positions" in cli(*words, "--min-visits", 20).ends(0).out
    data = cli(*words, "startpos", "--json").json
    assert (data["form"], data["positions"]) == ("site", 6)


# ------------------------------------------------------------------ the page
Page = Callable[[Path, str], Any]


@pytest.fixture
def page(driver: Any) -> Iterator[Page]:
    """Opens a site from disk, at an address in it; at the end nothing was wrong in the console."""
    from selenium.webdriver.support.wait import WebDriverWait

    def opened(folder: Path, address: str = "") -> Any:
        driver.get("about:blank")
        driver.get(f"{(folder / 'index.html').as_uri()}{address}")
        WebDriverWait(driver, 20).until(lambda one: one.execute_script("return document.body.dataset.shown"))
        return driver

    driver.get("about:blank")
    driver.get_log("browser")  # of the page that the test before has left open
    yield opened
    assert [entry for entry in driver.get_log("browser") if entry["level"] == "SEVERE"] == []


def texts(browser: Any, selector: str) -> list[str]:
    found = browser.execute_script(
        "return [...document.querySelectorAll(arguments[0])].map((one) => one.textContent)", selector
    )
    assert isinstance(found, list)
    return found


def until(browser: Any, selector: str, wanted: list[str]) -> None:
    """Waits until the texts of some elements are as wanted."""
    from selenium.webdriver.support.wait import WebDriverWait

    WebDriverWait(browser, 10, 0.05).until(
        lambda one: texts(one, selector) == wanted, f"{texts(browser, selector)} is not {wanted}"
    )


def click(browser: Any, selector: str) -> None:
    browser.find_element("css selector", selector).click()


def test_a_site_on_disk_shows_moves_plays_them_and_finds_back(page: Page, file: Path, tmp_path: Path) -> None:
    export("site", file, tmp_path / "site")
    browser = page(tmp_path / "site", "")
    until(browser, "tbody td:first-child", ["e4", "d4", "Nf3"])
    assert texts(browser, "tbody tr:first-child td")[1:3] == ["+0.14", "60"]
    for _ in range(3):  # the best moves
        browser.find_element("css selector", "body").send_keys("\ue014")
    until(browser, "#line button", ["Start", "e4", "e5", "Nf3"])
    assert browser.current_url.endswith("#0/e2e4/e7e5/g1f3")
    click(browser, "[data-view=ways]")
    until(browser, ".ways button", ["2. Nf3", "2. e4"])
    click(browser, ".ways li:last-child button")
    until(browser, "#line button", ["Start", "Nf3", "e5"])
    page(tmp_path / "site", "#0/g1f3/e7e5/e2e4/nonsense")
    until(browser, "#line button", ["Start", "Nf3", "e5", "e4"])
    click(browser, "#first")
    until(browser, "#line [aria-current]", ["Start"])


def test_the_graph_and_its_colours_are_those_of_the_query(
    page: Page, small_graph: Path, tmp_path: Path
) -> None:
    export("site", small_graph, tmp_path / "site", Selection(min_visits=0))
    browser = page(tmp_path / "site", "")
    click(browser, "[data-view=graph]")
    from selenium.webdriver.support.wait import WebDriverWait

    wanted = neighbourhood(small_graph, chess.Board(), depth=4, most=60)
    WebDriverWait(browser, 10).until(lambda one: len(texts(one, ".picture .box")) == len(wanted.nodes))
    assert len(texts(browser, ".picture > g > path:first-of-type")) == len(wanted.edges)
    drawn = {text.split("  ")[0] for text in texts(browser, ".picture .box title")}
    assert {" ".join(fen.split()[:4]) for fen in drawn} == {
        " ".join(node.position.split()[:4]) for node in wanted.nodes
    }


def test_names_with_scripts_stay_texts(page: Page, file: Path, tmp_path: Path) -> None:
    add_book(file, EVIL, "white", [chess.STARTING_FEN], {"e4": -0.3, "e4 e5": 0.2})
    sql(file, "UPDATE book_move SET rule = ?", EVIL)
    export("site", file, tmp_path / "site", Selection(book=EVIL))
    browser = page(tmp_path / "site", "")
    assert browser.title.startswith("<script>")
    assert texts(browser, "h1") == [EVIL]
    assert texts(browser, "tbody td:last-child") == [EVIL]
    assert texts(browser, "b b, h1 *") == []


def test_a_missing_part_is_said(driver: Any, file: Path, tmp_path: Path) -> None:
    export("site", file, tmp_path / "site")
    (tmp_path / "site" / "data" / "0.js").unlink()
    driver.get((tmp_path / "site" / "index.html").as_uri())
    until(driver, "#facts", ["data/0.js is missing"])
    driver.get_log("browser")
