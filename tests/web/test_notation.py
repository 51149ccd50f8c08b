"""The notation pane: studies in the browser, from PGN and back, changed by hand and by another window."""

from __future__ import annotations

import io
import random
from pathlib import Path
from typing import Any

import chess
import chess.pgn
import pytest

from graphsearch.book.study.notes import note_on
from graphsearch.book.study.studies import StudyChange, change_study, import_studies, list_studies

from .conftest import Client, Serve, until
from .test_page import Page

EVIL = "<img src=x onerror=alert(1)><script>document.title='owned'</script>"
GAME = '[White "Ann"]\n[Black "Bob"]\n\n1. e4 e5 (1... c5 2. Nf3 {open}) (1... e6) 2. Nf3 Nc6 *\n'
MOVES = "[...document.querySelectorAll('#line button')].map((e) => e.textContent).join(' ')"
STATE = "document.querySelector('#notation-state').textContent"


@pytest.fixture
def page(driver: Any, client: Client) -> Page:
    return Page(driver, client)


def study_of(client: Client, text: str = GAME) -> int:
    """Returns the number of a study that is made of a PGN."""
    path = client.server.served.path
    return import_studies(path, text.splitlines(keepends=True), "a.pgn").studies[0].id


def opened(page: Page, number: int, node: int = 0) -> None:
    page.driver.get(f"http://{page.client.host}/p/?study={number}.{node}")
    page.wait(f"return {STATE}.includes('saved') || {STATE}.includes('read-only')", "the study")
    page.wait(f"return {MOVES}.length > 0", "its moves")


def exported(page: Page, number: int) -> str:
    return page.client.ask("GET", f"/api/study-pgn?id={number}").body.decode()


def written(page: Page, number: int, text: str) -> None:
    """Waits until the PGN of a study has a text: the page may say of the change before that it is saved."""
    until(lambda: text in " ".join(exported(page, number).split()), text)


def moves_of(page: Page) -> str:
    return str(page.run(f"return {MOVES}"))


def at(page: Page) -> str:
    return str(page.run("return document.querySelector('#line [aria-current]')?.textContent || ''"))


def play(page: Page, san: str) -> None:
    page.run("document.querySelector('#san').value = arguments[0]", san)
    page.run("document.querySelector('#typed').requestSubmit()")
    until(lambda: at(page) == san, f"{san} on the board")


def go_to(page: Page, node: int, san: str) -> None:
    page.click(f'#line [data-node="{node}"]')
    until(lambda: at(page) == san, f"{san} on the board")


def address_with(page: Page, end: str) -> str:
    """Returns the address of the page once it ends so, which is when the server has answered."""
    until(lambda: page.driver.current_url.endswith(end), f"{end} in the address")
    return str(page.driver.current_url)


def write(page: Page, selector: str, text: str) -> None:
    script = "const e = document.querySelector(arguments[0]); e.value = arguments[1];"
    page.run(f"{script} e.dispatchEvent(new Event('change'))", selector, text)


def saved(page: Page) -> None:
    page.wait(f"return {STATE} === 'saved'", "the change in the file")


def upload(page: Page, file: Path) -> None:
    page.click("#studies-open")
    page.wait("return document.querySelector('#study-file') !== null", "the list of studies")
    page.driver.find_element("css selector", "#study-file").send_keys(str(file))


# ------------------------------------------------------------------ the way of a game
def long_game() -> str:
    """Returns a game of 30 moves with comments and glyphs, as python-chess writes it."""
    rng, board = random.Random(11), chess.Board()
    game = chess.pgn.Game()
    game.headers.update({"White": "Ann", "Black": EVIL, "Event": "A long game"})
    node: chess.pgn.GameNode = game
    while board.ply() < 60:
        moves = sorted(board.legal_moves, key=lambda move: move.uci())
        node = node.add_variation(rng.choice(moves))
        board.push(node.move)
        if board.ply() % 10 == 0:
            node.comment, node.nags = f"after {board.ply()} {EVIL}", {1}
        assert not board.is_game_over()
    return game.accept(chess.pgn.StringExporter()) + "\n"


def test_a_game_is_opened_added_to_searched_exported_and_imported_again(page: Page, tmp_path: Path) -> None:
    file = tmp_path / "long.pgn"
    file.write_text(long_game(), encoding="utf-8")
    upload(page, file)
    page.wait(f"return {MOVES}.split(' ').length === 60", "the game")
    page.wait("return !document.querySelector('#studies').open", "the dialog to close")
    number = list_studies(page.client.server.served.path).studies[0].id
    assert exported(page, number) == long_game()
    board = chess.Board()
    game = chess.pgn.read_game(io.StringIO(long_game()))
    assert game is not None
    main = list(game.mainline_moves())
    for ply in (3, 6):  # two variations
        board.reset()
        for move in main[:ply]:
            board.push(move)
        go_to(page, ply, san_of(main, ply))
        other = next(move for move in board.legal_moves if move != main[ply])
        play(page, board.san(other))
        board.push(other)
        saved(page)
        play(page, board.san(next(iter(board.legal_moves))))
        saved(page)
        line = " ".join(move.uci() for move in board.move_stack)
        assert page.client.post("search", line=line, visits=40, threads=1, queue=True).status == 200
    page.run("document.querySelector('#note').open = true; document.querySelector('#note-text').focus()")
    write(page, "#note-text", f"a note {EVIL}")
    board.push(next(iter(board.legal_moves)))
    until(lambda: note_on(page.client.server.served.path, board).note is not None, "the note")
    until(lambda: not page.client.server.served.queue.as_dict()["running"], "the searches")
    page.wait("return document.querySelectorAll('#line .worth').length >= 2", "values beside the moves")
    text = exported(page, number)
    judged = chess.pgn.read_game(io.StringIO(text))
    assert judged is not None
    assert judged.accept(chess.pgn.StringExporter()) + "\n" == text
    assert (text.count("( "), judged.errors) == (2, [])
    shown = moves_of(page)
    file.write_text(text, encoding="utf-8")
    upload(page, file)
    page.wait("return document.querySelector('#notation-name').textContent.endsWith('(2)')", "the import")
    assert moves_of(page) == shown
    again = [one.id for one in list_studies(page.client.server.served.path).studies if one.id != number]
    assert [exported(page, one) for one in again] == [text]
    assert "owned" not in page.driver.title
    assert page.run("return document.querySelectorAll('#notation img, #notation script').length") == 0
    assert page.errors() == []


def san_of(main: list[chess.Move], ply: int) -> str:
    """Returns the move of a ply, from 1, as people write it."""
    board = chess.Board()
    for move in main[: ply - 1]:
        board.push(move)
    return board.san(main[ply - 1])


# ------------------------------------------------------------------ changes
def test_moves_that_are_played_become_variations_and_nothing_is_erased(page: Page) -> None:
    for san in ("e4", "e5", "Nf3"):
        play(page, san)
    page.click("#first")
    until(lambda: at(page) == "", "the start")
    assert moves_of(page) == "e4 e5 Nf3"  # what follows stays in sight
    play(page, "d4")
    play(page, "d5")
    assert moves_of(page) == "e4 d4 d5 e5 Nf3"
    page.click("#keep")
    page.wait("return document.querySelector('#studies').open", "the dialog")
    page.run(
        "document.querySelector('#study-name').value = 'Mine';"
        "document.querySelector('#studies form').requestSubmit()"
    )
    page.wait("return document.querySelector('#notation-name').textContent === 'Mine'", "the study")
    assert at(page) == "d5"
    written(page, 1, "1. e4 ( 1. d4 d5 ) 1... e5 2. Nf3 *")
    assert page.errors() == []


def test_variations_are_promoted_demoted_deleted_and_written_on(page: Page) -> None:
    number = study_of(page.client)
    opened(page, number, 4)
    until(lambda: at(page) == "Nf3", "the move of the address")
    page.click("#promote")
    saved(page)
    written(page, number, "1. e4 c5 ( 1... e5 2. Nf3 Nc6 ) ( 1... e6 ) 2. Nf3 { open } *")
    page.click("#demote")
    saved(page)
    page.click("#demote")
    saved(page)
    written(page, number, "1. e4 e5 ( 1... e6 ) ( 1... c5 2. Nf3 { open } ) 2. Nf3 Nc6 *")
    page.click("#write")
    write(page, "#comment", f"closed }} {EVIL}")
    saved(page)
    page.run("document.querySelectorAll('.glyphs button')[4].click()")
    saved(page)
    write(page, "#glyph-value", "14")
    saved(page)
    written(page, number, f"2. Nf3 $5 $14 {{ closed ) {EVIL} }} )")
    page.click("#delete-line")
    until(lambda: at(page) == "e4", "the move before")
    saved(page)
    written(page, number, "1. e4 e5 ( 1... e6 ) 2. Nf3 Nc6 *")
    assert page.errors() == []


def test_an_address_names_a_study_and_its_move_and_the_board_stays_turned(page: Page) -> None:
    number = study_of(page.client)
    opened(page, number)
    go_to(page, 3, "c5")
    page.run("document.body.dispatchEvent(new KeyboardEvent('keydown', { key: 'f', bubbles: true }))")
    address = address_with(page, f"study={number}.3")
    page.driver.get("about:blank")
    page.driver.get(address)
    page.wait("return document.querySelector('#notation-name').textContent.startsWith('Ann')", "the study")
    until(lambda: at(page) == "c5", "the move of the address")
    assert page.run('return document.querySelector("#gauge").classList.contains("flipped")')
    page.run("localStorage.removeItem('flipped')")
    go_to(page, 1, "e4")
    address_with(page, f"study={number}.1")
    page.driver.back()
    until(lambda: at(page) == "c5", "the move before")
    assert page.driver.current_url == address
    assert page.errors() == []


def test_keys_go_through_variations_and_are_listed(page: Page) -> None:
    opened(page, study_of(page.client), 2)
    until(lambda: at(page) == "e5", "the main line")
    body = page.driver.find_element("css selector", "body")
    for key, san in (("\ue015", "c5"), ("\ue015", "e6"), ("\ue013", "c5"), ("\ue014", "Nf3")):  # ↓ ↓ ↑ →
        body.send_keys(key)
        page.wait(f"return document.querySelector('#line [aria-current]')?.textContent === '{san}'", san)
    body.send_keys("?")
    page.wait("return document.querySelector('#keys').open", "the list of keys")
    page.driver.switch_to.active_element.send_keys("\ue00c")  # Escape
    page.wait("return !document.querySelector('#keys').open", "it to close")
    body.send_keys("c")
    page.wait("return document.activeElement.id === 'comment'", "the comment")
    assert page.errors() == []


def test_a_line_that_is_only_looked_at_is_added_by_hand_only(page: Page) -> None:
    number = study_of(page.client)
    opened(page, number)
    before = exported(page, number)
    page.click("#first")
    page.wait("return document.querySelector('.moves .pv .ply:nth-child(3)') !== null", "a line")
    page.run("document.querySelector('.moves tr:nth-child(2) .pv .ply:nth-child(3)').click()")
    page.wait("return document.querySelector('#elsewhere').textContent.includes('Not in')", "that it is new")
    assert exported(page, number) == before
    page.click("#add-line")
    saved(page)
    assert exported(page, number) != before
    assert page.text("#elsewhere") == ""


# ------------------------------------------------------------------ two windows, and none that writes
def test_the_second_window_that_changes_a_study_is_told(page: Page) -> None:
    number, path = study_of(page.client), page.client.server.served.path
    opened(page, number, 1)
    change_study(path, number, StudyChange(comment="from elsewhere"), 1)
    page.click("#write")
    write(page, "#comment", "from here")
    page.wait("return document.querySelector('#toast').textContent.includes('changed elsewhere')", "the news")
    page.wait("return document.querySelector('#line').textContent.includes('from elsewhere')", "the change")
    answer = page.client.post("study-change", id=number, revision=1, comment="x", says=True)
    assert (answer.status, "changed elsewhere" in answer.error) == (409, True)


def test_a_change_elsewhere_is_shown_without_being_asked_for(page: Page) -> None:
    number, path = study_of(page.client), page.client.server.served.path
    opened(page, number)
    change_study(path, number, StudyChange(comment="from elsewhere"))
    page.wait("return document.querySelector('#line').textContent.includes('from elsewhere')", "the change")
    page.client.post("study-delete", id=number, revision=2)
    page.wait("return document.querySelector('#toast').textContent.includes('was deleted')", "the news")
    assert moves_of(page).startswith("e4")  # a draft now: nothing is lost


def test_a_study_is_renamed_and_deleted_in_the_list(page: Page) -> None:
    number = study_of(page.client)
    opened(page, number, 1)
    page.click("#studies-open")
    page.wait("return document.querySelector('#study-list button.link') !== null", "the list")
    page.run("document.querySelector('#study-list button[aria-label^=Rename]').click()")
    write(page, "#study-rename", EVIL)
    page.click("#study-rename-do")
    page.wait(f"return document.querySelector('#notation-name').textContent.startsWith('{EVIL[:8]}')", "it")
    page.run("document.querySelector('#studies').close()")
    page.click("#write")
    write(page, "#comment", "after the new name")
    saved(page)
    written(page, number, "after the new name")
    page.click("#studies-open")
    page.wait("return document.querySelector('#study-list button[aria-label^=Delete]') !== null", "the list")
    page.run("document.querySelector('#study-list button[aria-label^=Delete]').click()")
    page.click("#study-delete")
    page.wait("return document.querySelector('#study-list button.link') === null", "the end")
    assert list_studies(page.client.server.served.path).studies == ()
    assert page.errors() == []


def test_a_page_that_only_reads_says_so(driver: Any, serve: Serve, small_graph: Path) -> None:
    import_studies(small_graph, GAME.splitlines(keepends=True), "a.pgn")
    client = serve(small_graph, read_only=True)
    page = Page(driver, client)
    client.enter()
    opened(page, 1, 2)
    assert "read-only" in page.text("#notation-state")
    assert page.run("return document.querySelector('#start').hidden")
    assert page.run("return document.querySelector('#edit').hidden && document.querySelector('#keep').hidden")
    page.wait("return document.querySelector('#note-text').readOnly", "the note")
    for path in ("study-new", "study-delete", "study-change", "note"):
        answer = client.post(path, id=1, revision=1)
        assert (answer.status, "read-only" in answer.error) == (400, True), path
    page.click("#studies-open")
    page.wait("return document.querySelector('#studies').textContent.includes('read-only')", "the reason")
    play_it = "document.querySelector('#studies').close(); document.querySelector('#san').value = 'd5';"
    page.run(f"{play_it} document.querySelector('#typed').requestSubmit()")
    assert page.errors() == []


# ------------------------------------------------------------------ games of strangers
def test_a_strangers_game_is_kept_as_text_and_what_is_left_out_is_listed(page: Page, tmp_path: Path) -> None:
    first = [chess.Board().san(move) for move in chess.Board().legal_moves]
    deep = " ( ".join(first[k % 20] for k in range(2_000)) + " )" * 1_999
    file = tmp_path / "deep.pgn"
    file.write_text(f'[White "{EVIL}"]\n\n{{{EVIL}}} {deep} *\n\n[White "Bad"]\n\n1. e4 $999 Ke9 e5 *\n')
    upload(page, file)
    page.wait("return document.querySelectorAll('#left-out li').length >= 2", "what is left out")
    told = page.text("#left-out")
    assert "$999 is no glyph" in told
    assert "the line ends before 'Ke9'" in told
    page.wait("return document.querySelector('#study-list button.link') !== null", "the studies")
    page.run("document.querySelectorAll('#study-list button.link')[0].click()")
    page.wait(f"return {STATE} === 'saved' && {MOVES}.length > 100", "the deep study")
    assert page.run("return document.querySelectorAll('#notation img, #notation script').length") == 0
    assert "owned" not in page.driver.title
    deepest = page.run(
        "let most = 0; for (const e of document.querySelectorAll('#line *')) {"
        " let n = 0; for (let a = e; a; a = a.parentElement) n += 1; most = Math.max(most, n); } return most"
    )
    assert deepest < 20
    assert page.errors() == []
