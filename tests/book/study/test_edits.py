"""Undo and redo of studies, notes and repertoires: every edit turns back, and no reader is fooled."""

from __future__ import annotations

from pathlib import Path

import chess
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphsearch.base.errors import ChangedMeanwhileError, InvalidParameterError, StoreError
from graphsearch.book.study.notes import note_on, write_note
from graphsearch.book.study.repertoire.moves import add_line, remove_move
from graphsearch.book.study.studies import (
    StudyChange,
    change_study,
    create_study,
    delete_study,
    export_studies,
    import_studies,
    list_studies,
    load_study,
)
from graphsearch.position.board import board_of
from graphsearch.store.plain_tables import changing, opened_to_read
from graphsearch.store.tables import edits
from graphsearch.store.tables.edits import EDITED, TurnedEdit
from graphsearch.store.tables.studies import StudyMove

PGN = '[White "Ann"]\n[Black "Bob"]\n\n1. e4 {good} e5 (1... c5 $14 2. Nf3) 2. Nf3 Nc6 *\n'
BOARD = chess.Board()


def turn(path: Path, act: str) -> TurnedEdit | None:
    with changing(path) as connection:
        found: TurnedEdit | None = getattr(edits, act)(connection)
        return found


def rows_of(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """Returns what the edited tables hold, without the columns that only grow."""
    growing = {"study": "id, name, fen, headers, comment", "note": "key, fen, text"}
    with opened_to_read(path) as connection:
        return {t: sorted(connection.execute(f"SELECT {growing.get(t, '*')} FROM {t}")) for t in EDITED}


def line(text: str) -> chess.Board:
    board = chess.Board()
    for san in text.split():
        board.push_san(san)
    return board


def study(path: Path) -> int:
    return import_studies(path, PGN.splitlines(keepends=True), "a.pgn").studies[0].id


def test_a_deleted_study_comes_back_as_it_was_and_goes_again(small_graph: Path) -> None:
    number = study(small_graph)
    before, text = rows_of(small_graph), export_studies(small_graph, [number])
    deleted = delete_study(small_graph, number)
    found = turn(small_graph, "undo")
    assert found is not None
    assert (found.studies, found.returned, found.names, found.moves) == (
        [number],
        [number],
        [deleted.name],
        6,
    )
    assert (rows_of(small_graph), export_studies(small_graph, [number])) == (before, text)
    assert turn(small_graph, "redo") is not None
    assert list_studies(small_graph).studies == ()


def test_a_revision_that_was_read_never_comes_back(small_graph: Path) -> None:
    number = study(small_graph)
    seen = change_study(small_graph, number, StudyChange(comment="one")).revision
    turn(small_graph, "undo")
    change_study(small_graph, number, StudyChange(comment="two"))
    with pytest.raises(ChangedMeanwhileError):
        change_study(small_graph, number, StudyChange(comment="three"), seen)
    note = write_note(small_graph, BOARD, "one")
    assert note is not None
    turn(small_graph, "undo")
    write_note(small_graph, BOARD, "two")
    with pytest.raises(ChangedMeanwhileError):
        write_note(small_graph, BOARD, "three", note.revision)


def test_numbers_of_undone_moves_are_not_given_again(small_graph: Path) -> None:
    number = create_study(small_graph, "a", None, StudyChange()).id
    change_study(small_graph, number, StudyChange(put=[StudyMove(1, 0, 0, "", "e2e4", "", "", "", "")]))
    turn(small_graph, "undo")
    with pytest.raises(InvalidParameterError, match="not there any more"):
        change_study(small_graph, number, StudyChange(put=[StudyMove(1, 0, 0, "", "d2d4", "", "", "", "")]))
    assert load_study(small_graph, number)[0].last == 1


def test_a_new_edit_ends_the_way_forward_and_a_failed_one_does_not(small_graph: Path) -> None:
    write_note(small_graph, BOARD, "one")
    turn(small_graph, "undo")
    with pytest.raises(InvalidParameterError):
        delete_study(small_graph, 99)
    write_note(small_graph, BOARD, "")  # changes nothing
    assert turn(small_graph, "redo") is not None
    turn(small_graph, "undo")
    write_note(small_graph, BOARD, "two")
    assert turn(small_graph, "redo") is None
    assert (turn(small_graph, "undo"), turn(small_graph, "undo")) == (
        TurnedEdit(notes=[chess.STARTING_FEN]),
        None,
    )


def test_what_another_program_has_changed_is_not_overwritten(small_graph: Path) -> None:
    write_note(small_graph, BOARD, "one")
    with changing(small_graph) as connection:
        connection.execute("UPDATE note SET text = 'mine'")
    with pytest.raises(ChangedMeanwhileError, match="note"):
        turn(small_graph, "undo")
    found = note_on(small_graph, BOARD).note
    assert found is not None
    assert found.text == "mine"


def test_a_damaged_log_is_refused(small_graph: Path) -> None:
    for text in ("[1]", "{}", "no json", '["k", "f", 7, 1, "x"]'):
        write_note(small_graph, BOARD, "one")
        with changing(small_graph) as connection:
            connection.execute("UPDATE edit SET new = ?", (text,))
        with pytest.raises(StoreError, match="edit"):
            turn(small_graph, "undo")
        write_note(small_graph, BOARD, "")


def test_old_edits_are_forgotten(small_graph: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edits, "MOST_ROWS", 6)  # a replaced row takes two
    for k in range(9):
        write_note(small_graph, BOARD, f"note {k}")
    undone = [turn(small_graph, "undo") is not None for _ in range(5)]
    assert undone == [True, True, True, False, False]


ACTS = st.sampled_from(["note", "erase", "line", "other", "remove", "study", "delete", "undo", "redo"])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(st.lists(ACTS, max_size=12))
def test_undo_and_redo_go_through_the_states_of_a_file(small_graph: Path, acts: list[str]) -> None:
    """Holds the file beside a list of all its states."""
    with changing(small_graph) as connection:
        edits.forget_edits(connection)
        for table in EDITED:
            connection.execute(f"DELETE FROM {table}")
    states, at = [rows_of(small_graph)], 0
    for k, act in enumerate(acts):
        if act in ("undo", "redo"):
            turned = turn(small_graph, act)
            wanted = at + (1 if act == "redo" else -1)
            assert (turned is not None) == (0 <= wanted < len(states))
            at = wanted if turned else at
        else:
            _act(small_graph, act, k)
            found = rows_of(small_graph)
            if found != states[at]:
                states[at + 1 :], at = [found], at + 1
        assert rows_of(small_graph) == states[at]


def _act(path: Path, act: str, k: int) -> None:
    known = list_studies(path).studies
    if act in ("note", "erase"):
        write_note(path, BOARD, f"note {k}" if act == "note" else "")
    elif act in ("line", "other"):
        add_line(path, "white", line("e4 e5 Nf3" if act == "line" else "e4 c5"))
    elif act == "remove":
        with opened_to_read(path) as connection:
            has = connection.execute("SELECT 1 FROM repertoire_move WHERE move = 'e2e4'").fetchone()
        if has:
            remove_move(path, "white", line("e4"))
    elif act == "study":
        create_study(path, f"study {k}", board_of(chess.STARTING_FEN).fen(), StudyChange(comment=f"{k}"))
    elif known:
        delete_study(path, known[0].id)


def test_the_log_of_a_large_change_is_one_edit(small_graph: Path) -> None:
    moves = " ".join(f"{k}. Nf3 Nf6 {k + 1}. Ng1 Ng8" for k in range(1, 400, 2))
    before = rows_of(small_graph)
    import_studies(small_graph, [f"{moves} *\n"], "a.pgn")
    found = turn(small_graph, "undo")
    assert found is not None
    assert found.moves == 800
    assert rows_of(small_graph) == before
