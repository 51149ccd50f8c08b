"""Undo and redo in the browser: nothing that a hand does to moves, studies, repertoires and notes is lost."""

from __future__ import annotations

from selenium.webdriver.common.action_chains import ActionChains

from graphsearch.book.study.studies import list_studies

from .client import until
from .page import LINE, Page
from .test_notation import exported, go_to, list_opened, opened, play, saved, study_of, write, written

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
    assert page.errors() == []


def test_a_deleted_study_comes_back_and_is_shown(page: Page) -> None:
    number = study_of(page.client, LONG)
    page.open()
    before = exported(page, number)
    list_opened(page, "#study-list [aria-label^=Delete]")
    page.click("#study-list [aria-label^=Delete]")
    page.click("#study-delete")
    told(page, "Ctrl-Z brings it back")
    page.has("#study-list button.link", 0)
    page.run("document.querySelector('#studies').close()")
    page.click("#undo")
    page.says("#notation-name", "a")
    page.has(LINE, 11)
    assert exported(page, number) == before
    page.click("#redo")
    until(lambda: not list_studies(page.client.server.served.path).studies, "the study to go")
    assert page.errors() == []


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
    assert list_studies(path).studies == ()
    assert page.errors() == []


def _note(page: Page, fen: str) -> str:
    return str(page.client.get("note", root=fen).json["text"])


def test_text_that_is_typed_is_turned_back_by_the_browser(page: Page) -> None:
    number = study_of(page.client, LONG)
    opened(page, number, 1)
    write(page, "kept")
    saved(page)
    written(page, number, "kept")
    page.click("#tools")
    page.run("document.querySelector('#comment').focus()")
    ActionChains(page.driver).key_down(CONTROL).send_keys("z").key_up(CONTROL).perform()
    page.run("document.activeElement.blur()")
    assert "kept" in exported(page, number)
    turn(page)
    told(page, "Undone")
    assert "kept" not in exported(page, number)
