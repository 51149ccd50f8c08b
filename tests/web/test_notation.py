"""The notation pane: studies from PGN and back, changed by hand and by another window, and undo."""

from __future__ import annotations

import io
import random
import shutil
from pathlib import Path
from typing import Any

import chess
import chess.pgn
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from graphsearch.book.study import studies
from graphsearch.exchange.importing import GivenFile
from tests.web.page import LINE, Client, Page, Serve, done, entered, until

EVIL = "<img src=x onerror=alert(1)><script>document.title='owned'</script>"
GAME = '[White "Ann"]\n[Black "Bob"]\n\n1. e4 e5 (1... c5 2. Nf3 {open}) (1... e6) 2. Nf3 Nc6 *\n'
STATE = "document.querySelector('#notation-state').textContent"
HELD = """  // the first answer about a study comes when `go` is called
const real = window.fetch;
window.fetch = async (path, ...more) => {
  const found = await real(path, ...more);
  if (!window.go && String(path).includes('/study?')) await new Promise((go) => { window.go = go; });
  return found;
};
"""


def study_of(client: Client, text: str = GAME) -> int:
    """Returns the number of a study that is made of a PGN."""
    return imported(client.server.served.path, text)


def imported(path: Path, text: str) -> int:
    return studies.import_studies(path, GivenFile("a.pgn", io.BytesIO(text.encode()))).studies[0].id


def change(path: Path, number: int, *more: studies.MoveRow, comment: str = "") -> None:
    """Changes a study as another window does."""
    game = studies.load_study(path, number)[1].tree
    rows = [*studies.rows_of(game), *more]
    whole = studies.game_of(game.board(), rows, comment=comment or game.comment, headers=game.headers)
    studies.change_study(path, number, game=whole)


def opened(page: Page, number: int, node: int = 0) -> None:
    page.open(f"/p/?study={number}.{node}")
    page.wait(f"return {STATE}.includes('saved') || {STATE}.includes('read-only')", "the study")
    page.has(LINE)


def exported(page: Page, number: int) -> str:
    return page.client.ask("GET", f"/api/study-pgn?id={number}").body.decode()


def written(page: Page, number: int, text: str) -> None:
    """Waits until the PGN of a study has a text: the page may say of the change before that it is saved."""
    until(lambda: text in " ".join(exported(page, number).split()), text)


def play(page: Page, san: str) -> None:
    page.play(san)
    page.reaches(san)


def go_to(page: Page, node: int, san: str) -> None:
    page.click(f'#line [data-node="{node}"]')
    page.reaches(san)


def address_with(page: Page, end: str) -> str:
    """Returns the address of the page once it ends so, which is when the server has answered."""
    until(lambda: page.driver.current_url.endswith(end), f"{end} in the address")
    return str(page.driver.current_url)


def write(page: Page, text: str) -> None:
    """Writes a comment on the move that is on the board."""
    page.click("#write")
    page.fill("#comment", text)


def saved(page: Page) -> None:
    page.wait(f"return {STATE} === 'saved'", "the change in the file")


def list_opened(page: Page, wanted: str = "#study-file") -> None:
    page.click("#studies-open")
    page.has(wanted)


def upload(page: Page, file: Path) -> None:
    list_opened(page)
    page.driver.find_element("css selector", "#study-file").send_keys(str(file))


# ------------------------------------------------------------------ the way of a game
def long_game() -> str:
    """Returns a game of 15 moves with comments and glyphs, as python-chess writes it."""
    rng, board = random.Random(11), chess.Board()
    game = chess.pgn.Game()
    game.headers.update({"White": "Ann", "Black": EVIL, "Event": "A long game"})
    node: chess.pgn.GameNode = game
    while board.ply() < 30:
        moves = sorted(board.legal_moves, key=lambda move: move.uci())
        node = node.add_variation(rng.choice(moves))
        board.push(node.move)
        if board.ply() % 10 == 0:
            node.comment, node.nags = f"after {board.ply()} {EVIL}", {1}
        assert not board.is_game_over()
    return game.accept(chess.pgn.StringExporter()) + "\n"


def test_a_game_is_opened_added_to_searched_exported_and_imported_again(page: Page, tmp_path: Path) -> None:
    page.open()
    path, file = page.client.server.served.path, tmp_path / "long.pgn"
    file.write_text(long_game(), encoding="utf-8")
    upload(page, file)
    page.has(LINE, 30)
    page.wait("return !document.querySelector('#studies').open", "the dialog to close")
    number = studies.list_studies(path)[0].id
    assert exported(page, number) == long_game()
    game = chess.pgn.read_game(io.StringIO(long_game()))
    assert game is not None
    main = list(game.mainline())
    go_to(page, 3, main[2].san())
    board = main[2].board()
    other = next(move for move in board.legal_moves if move != main[3].move)
    play(page, board.san(other))  # a variation
    board.push(other)
    saved(page)
    play(page, board.san(next(iter(board.legal_moves))))
    saved(page)
    line = " ".join(move.uci() for move in board.move_stack)
    assert page.client.post("search", line=line, visits=40, threads=1, queue=True).status == 200
    page.run("document.querySelector('#note').open = true; document.querySelector('#note-text').focus()")
    page.fill("#note-text", f"a note {EVIL}")
    board.push(next(iter(board.legal_moves)))
    until(lambda: studies.note_on(path, board).note is not None, "the note")
    until(lambda: not page.client.server.served.queue.as_dict()["running"], "the search")
    page.has("#line .worth")
    text = exported(page, number)
    judged = chess.pgn.read_game(io.StringIO(text))
    assert judged is not None
    assert judged.accept(chess.pgn.StringExporter()) + "\n" == text
    assert (text.count("( "), judged.errors) == (1, [])
    shown = page.line()
    file.write_text(text, encoding="utf-8")
    upload(page, file)
    page.says("#notation-name", "(2)")
    assert page.line() == shown
    again = [one.id for one in studies.list_studies(path) if one.id != number]
    assert [exported(page, one) for one in again] == [text]
    harmless(page)


def harmless(page: Page) -> None:
    """Checks that what strangers wrote is text on the page."""
    assert "owned" not in page.driver.title
    assert page.count("#notation img, #notation script") == 0


# ------------------------------------------------------------------ changes
def test_moves_that_are_played_become_variations_and_nothing_is_erased(page: Page) -> None:
    page.open()
    for san in ("e4", "e5", "Nf3"):
        play(page, san)
    page.click("#first")
    page.reaches("")
    assert page.line() == "e4 e5 Nf3"  # what follows stays in sight
    play(page, "d4")
    play(page, "d5")
    assert page.line() == "e4 d4 d5 e5 Nf3"
    page.click("#keep")
    page.wait("return document.querySelector('#studies').open", "the dialog")
    page.fill("#study-name", "Mine")
    page.run("document.querySelector('#studies form').requestSubmit()")
    until(lambda: page.text("#notation-name") == "Mine", "the study")
    assert page.at() == "d5"
    written(page, 1, "1. e4 ( 1. d4 d5 ) 1... e5 2. Nf3 *")


def test_variations_are_promoted_demoted_deleted_and_written_on_and_a_study_is_renamed(page: Page) -> None:
    number = study_of(page.client)
    opened(page, number, 6)
    page.reaches("Nf3")
    page.click("#promote")
    saved(page)
    written(page, number, "1. e4 c5 ( 1... e5 2. Nf3 Nc6 ) ( 1... e6 ) 2. Nf3 { open } *")
    page.click("#demote")
    saved(page)
    page.click("#demote")
    saved(page)
    written(page, number, "1. e4 e5 ( 1... e6 ) ( 1... c5 2. Nf3 { open } ) 2. Nf3 Nc6 *")
    write(page, f"closed }} {EVIL}")
    saved(page)
    page.run("document.querySelectorAll('.glyphs button')[4].click()")
    saved(page)
    page.fill("#glyph-value", 14)
    saved(page)
    written(page, number, f"2. Nf3 $5 $14 {{ closed ) {EVIL} }} )")
    page.click("#delete-line")
    page.says("dialog.sure", "Delete c5 and the 1 move behind it?")
    page.click("dialog.sure .primary")
    page.reaches("e4")
    saved(page)
    written(page, number, "1. e4 e5 ( 1... e6 ) 2. Nf3 Nc6 *")
    list_opened(page, "#study-list [aria-label^=Rename]")
    page.click("#study-list [aria-label^=Rename]")
    page.fill("dialog.sure input", EVIL)
    page.click("dialog.sure .primary")
    page.says("#notation-name", EVIL[:8])
    page.run("document.querySelector('#studies').close()")
    page.fill("#comment", "after the new name")
    saved(page)
    written(page, number, "after the new name")
    list_opened(page, "#study-list [aria-label^=Delete]")
    page.click("#study-list [aria-label^=Delete]")
    page.click("dialog.sure .primary")
    page.has("#study-list button.link", 0)
    assert studies.list_studies(page.client.server.served.path) == []
    harmless(page)


def test_keys_go_through_variations_and_an_address_names_a_study_and_its_move(page: Page) -> None:
    number = study_of(page.client)
    opened(page, number, 2)
    page.reaches("e5")
    for key, san in ((Keys.DOWN, "c5"), (Keys.DOWN, "e6"), (Keys.UP, "c5"), (Keys.RIGHT, "Nf3")):
        page.keys(key)
        page.reaches(san)
    page.keys("?")
    page.wait("return document.querySelector('#keys').open", "the list of keys")
    page.keys_here(Keys.ESCAPE)
    page.wait("return !document.querySelector('#keys').open", "it to close")
    page.keys("w")
    page.wait("return document.activeElement.id === 'comment'", "the comment")
    page.run("document.activeElement.blur()")
    go_to(page, 5, "c5")
    page.keys("t")
    address = address_with(page, f"study={number}.5")
    page.driver.get("about:blank")
    page.driver.get(address)
    page.says("#notation-name", "Ann")
    page.reaches("c5")
    assert page.count("#gauge.flipped") == 1
    go_to(page, 1, "e4")
    address_with(page, f"study={number}.1")
    page.driver.back()
    page.reaches("c5")
    assert page.driver.current_url == address
    page.view("review")
    page.fill("#review-visits", 10)
    page.click("#review-line")
    page.says("#review-game", "Ann")


# ------------------------------------------------------------------ two windows, and none that writes
def test_what_another_window_changes_or_deletes_is_shown_and_nothing_is_lost(page: Page) -> None:
    number, path = study_of(page.client), page.client.server.served.path
    opened(page, number, 1)
    change(path, number, comment="from elsewhere")
    write(page, "from here")
    page.says("#toast", "changed elsewhere")
    page.says("#line", "from elsewhere")
    page.says("#line", "from here")
    written(page, number, "{ from elsewhere } 1. e4 { from here }")
    answer = page.client.post("study-change", id=number, revision=1, name="x")
    assert (answer.status, "changed elsewhere" in answer.error) == (409, True)
    change(path, number, comment="once more")  # is shown without being asked for
    page.says("#line", "once more")
    page.client.post("study-delete", id=number, revision=4)
    page.says("#toast", "was deleted")
    assert page.line().startswith("e4")  # a draft now
    assert all("409" in error or "400" in error for error in page.errors())


def test_moves_of_two_windows_are_all_kept(page: Page) -> None:
    number, path = study_of(page.client), page.client.server.served.path
    opened(page, number, 7)
    page.reaches("e6")
    page.says("#file-facts", "nodes")  # and it hears of changes
    page.run(HELD)  # the page does not see yet what the other window writes
    # of the same parent as here, and another one
    change(path, number, studies.MoveRow(8, 7, "g1f3"), studies.MoveRow(9, 8, "d7d5", comment="theirs"))
    page.wait("return Boolean(window.go)", "the study as the other window has left it")
    play(page, "d4")
    play(page, "d5")
    saved(page)
    page.run("go()")  # too late: the page has written meanwhile
    written(page, number, "1... e6 2. Nf3 ( 2. d4 d5 ) 2... d5 { theirs }")
    assert page.at() == "d5"
    page.click("#first")
    page.click("#last")
    play(page, "Nc3")  # what follows is written as ever
    saved(page)
    assert page.errors() == [] or all("409" in error for error in page.errors())


def test_changes_that_were_saved_do_not_count_as_tries_of_one_that_was_refused(page: Page) -> None:
    number = study_of(page.client)
    opened(page, number, 4)
    page.reaches("Nc6")
    page.run(
        "const real = window.fetch, first = new Promise((go) => { window.go = go; }); let count = 0;"
        "window.fetch = async (path, ...more) => {"
        " if (!String(path).endsWith('study-change')) return real(path, ...more);"
        " if (++count === 1) await first;"
        ' return count === 6 ? new Response(\'{"error": ""}\', { status: 409 }) : real(path, ...more); };'
    )
    for san in ("Bb5", "a6", "Ba4", "Nf6", "O-O", "Be7"):
        play(page, san)
    page.run("go()")
    saved(page)
    written(page, number, "5. O-O Be7 *")


def test_changes_that_get_no_answer_are_written_once_the_server_answers(page: Page) -> None:
    number = study_of(page.client)
    opened(page, number, 1)
    page.run("window.real = fetch; window.fetch = async () => { throw new TypeError('cut off'); };")
    write(page, "typed meanwhile")
    page.fill("#note-text", "and a note")
    page.says("#notation-state", "not saved")
    assert not page.run("return dispatchEvent(new Event('beforeunload', { cancelable: true }))")
    page.run("window.fetch = real")
    study_of(page.client)  # the page hears of it, and asks
    written(page, number, "1. e4 { typed meanwhile }")
    until(lambda: page.client.get("position", line="e4").json["note"]["text"] == "and a note", "the note")
    saved(page)


def test_a_page_that_only_reads_says_so(driver: Any, serve: Serve, small_graph: Path) -> None:
    imported(small_graph, GAME)
    page = Page(driver, entered(serve, small_graph, read_only=True))
    opened(page, 1, 2)
    assert "read-only" in page.text("#notation-state")
    assert page.count("#start[hidden], #edit[hidden], #keep[hidden]") == 3
    page.has("#note-text:read-only")
    page.click("#studies-open")
    page.says("#studies", "read-only")
    page.run("document.querySelector('#studies').close()")
    page.play("d5")
    assert page.errors() == []


# ------------------------------------------------------------------ games of strangers
def test_a_strangers_game_is_kept_as_text_and_what_is_left_out_is_listed(page: Page, tmp_path: Path) -> None:
    page.open()
    first = [chess.Board().san(move) for move in chess.Board().legal_moves]
    deep = " ( ".join(first[k % 20] for k in range(2_000)) + " )" * 1_999
    file = tmp_path / "deep.pgn"
    file.write_text(f'[White "{EVIL}"]\n\n{{{EVIL}}} {deep} *\n\n[White "Bad"]\n\n1. e4 $999 Ke9 e5 *\n')
    upload(page, file)
    until(lambda: page.count("#left-out li") >= 2, "what is left out")
    told = page.text("#left-out")
    assert "$999 is no glyph" in told
    assert "the line ends before 'Ke9'" in told
    page.has("#study-list button.link")
    page.click("#study-list button.link")
    saved(page)
    until(lambda: page.count(LINE) > 100, "the deep study")
    deepest = page.run(
        "let most = 0; for (const e of document.querySelectorAll('#line *')) {"
        " let n = 0; for (let a = e; a; a = a.parentElement) n += 1; most = Math.max(most, n); } return most"
    )
    assert deepest < 20
    harmless(page)


# ------------------------------------------------------------------ games that were reviewed
ROWS = "#panel .line-table tbody tr"


def reviewed(page: Page) -> None:
    page.open("/p/?line=f3,e5,g4,Qh4", moves=4)
    page.view("review")
    page.fill("#review-visits", 30)
    page.click("#review-line")
    page.has(ROWS, 4)


def test_marks_of_a_review_are_in_the_notation_and_a_key_goes_to_the_next_mistake(page: Page) -> None:
    reviewed(page)
    page.has("#line .nag")
    page.has("#line .stretch.d1")  # the better line
    assert "127" not in page.text("#notation") + page.text("#panel")  # mates are moves, not pawns
    assert "[%eval" not in page.text("#line")
    page.keys(Keys.HOME)
    page.reaches("")
    page.keys("m")
    page.wait("return document.querySelector('#line [aria-current] + .nag')", "a mistake")
    first = page.at()
    page.keys("m")
    page.says("#toast", "No mistake") if first == "g4" else page.reaches("g4")
    page.keys("M")
    page.wait("return document.querySelector('#line [aria-current] + .nag')", "a mistake")
    assert page.count("#panel .curve .mark") > 0
    assert page.count("#panel .curve .now:not([hidden])") == 1
    page.open("/p/?line=f3,e5,g4", moves=3)
    page.has("#lines .ply")
    assert page.count("#lines .muted") == 0  # each was visited, or mates


def test_a_review_in_a_copy_says_that_its_files_are_missing(driver: Any, page: Page, serve: Serve) -> None:
    reviewed(page)
    client = page.client
    assert done(client, 1)["state"] == "done"
    client.end()
    path = client.server.served.path
    other = Page(driver, serve(Path(shutil.copy(path, path.with_name("copy.graph")))))
    other.open()
    other.view("review")
    other.says("#panel .jobs", "not beside this graph file")
    assert other.count("#panel .jobs button") == 0
    assert other.errors() == []


# ------------------------------------------------------------------ undo and redo
CONTROL = "\ue009"
LONG = "1. e4 e5 2. Nf3 Nc6 3. Bb5 (3. Bc4 Bc5 4. c3) 3... a6 4. Ba4 Nf6 *\n"


def turn(page: Page, key: str = "z") -> None:
    """Presses Ctrl with a key while nothing has the focus."""
    page.run("document.activeElement.blur()")
    ActionChains(page.driver).key_down(CONTROL).send_keys(key).key_up(CONTROL).perform()


def told(page: Page, text: str) -> None:
    page.says("#toast", text)
    page.run("document.querySelector('#toast').textContent = ''")


def test_a_move_with_all_behind_it_is_deleted_after_a_question_and_comes_back(page: Page) -> None:
    number = study_of(page.client, LONG)
    opened(page, number)
    before = exported(page, number)
    go_to(page, 1, "e4")
    page.has("#delete-move")
    page.click("#delete-move")
    page.says("dialog.sure", "Delete e4 and the 10 moves behind it?")
    page.click("dialog.sure [value='']")
    page.has("dialog.sure", 0)
    assert exported(page, number) == before
    page.click("#delete-move")
    page.click("dialog.sure .primary")
    page.has(LINE, 0)
    saved(page)
    turn(page)
    told(page, "Undone: the study")
    page.has(LINE, 11)
    assert exported(page, number) == before
    turn(page, "y")
    told(page, "Done again")
    page.has(LINE, 0)
    turn(page)
    page.has(LINE, 11)
    play(page, "d4")  # ends the way forward
    saved(page)
    turn(page, "y")
    told(page, "nothing to redo")
    turn(page)
    page.reaches("")
    assert exported(page, number) == before


def test_a_deleted_study_comes_back_and_is_shown(page: Page) -> None:
    number = study_of(page.client, LONG)
    page.open()
    before = exported(page, number)
    list_opened(page, "#study-list [aria-label^=Delete]")
    page.click("#study-list [aria-label^=Delete]")
    page.click("dialog.sure .primary")
    told(page, "Ctrl-Z brings it back")
    page.has("#study-list button.link", 0)
    page.run("document.querySelector('#studies').close()")
    page.click("#undo")
    page.says("#notation-name", "a")
    page.has(LINE, 11)
    assert exported(page, number) == before
    page.click("#redo")
    until(lambda: not studies.list_studies(page.client.server.served.path), "the study to go")


def test_a_draft_a_note_and_a_repertoire_are_turned_back_in_their_order(page: Page) -> None:
    page.open()
    path = page.client.server.served.path
    for san in ("e4", "e5"):
        play(page, san)
    write(page, "open")
    page.says("#line", "open")
    page.click("#to-repertoire")
    page.click("#line-menu button")
    told(page, "2 moves added")
    page.run("document.querySelector('#note').open = true; document.querySelector('#note-text').focus()")
    page.fill("#note-text", "a note")
    board = page.client.get("position", line="e4 e5").json["position"]
    until(lambda: _note(page, board) == "a note", "the note")
    play(page, "Nf3")
    turn(page)
    page.reaches("e5")
    assert page.line() == "e4 e5"
    turn(page)
    told(page, "a note")
    until(lambda: _note(page, board) == "", "the note to go")
    turn(page)
    told(page, "repertoire")
    turn(page)
    page.wait("return !document.querySelector('#line').textContent.includes('open')", "the comment to go")
    turn(page)
    page.reaches("e4")
    turn(page, "y")
    page.wait("return document.querySelectorAll('#line button').length === 2", "the move again")
    turn(page, "y")
    page.says("#line", "open")
    turn(page, "y")
    told(page, "repertoire")
    assert studies.list_studies(path) == []


def _note(page: Page, fen: str) -> str:
    return str(page.client.get("position", root=fen).json["note"]["text"])
