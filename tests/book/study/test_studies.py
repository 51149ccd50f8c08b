"""Studies and notes in a graph file: one transaction each; merges, rescues and old files lose nothing."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import chess
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphsearch.base.errors import ChangedMeanwhileError, InvalidParameterError, StoreError
from graphsearch.book.study.notes import list_notes, note_on, write_note
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
from graphsearch.graph.sweeps.merge import merge
from graphsearch.position.board import board_of
from graphsearch.store.plain_tables import changing, opened_to_read
from graphsearch.store.record.provenance import EvaluatorIdentity
from graphsearch.store.store import Store
from graphsearch.store.tables import edits
from graphsearch.store.tables import studies as rows
from graphsearch.store.tables.edits import EDITED, TurnedEdit
from graphsearch.store.tables.studies import StudyMove
from graphsearch.store.upkeep.backup import backup
from graphsearch.store.upkeep.rewrite import compact
from graphsearch.store.upkeep.salvage import salvage
from graphsearch.store.upkeep.verify import verify

PGN = '[White "Ann"]\n[Black "Bob"]\n\n1. e4 {good} e5 (1... c5 $14 2. Nf3) 2. Nf3 Nc6 *\n'
NAME = "Ann \N{EN DASH} Bob"


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    path = tmp_path / "a.graph"
    Store.open(path, create=True, identity=EvaluatorIdentity("uniform")).close()
    return path


@pytest.fixture
def study(graph: Path) -> int:
    return import_studies(graph, PGN.splitlines(keepends=True), "a.pgn").studies[0].id


def move(number: int, parent: int, uci: str, **texts: str) -> StudyMove:
    texts = {"before": "", "comment": "", "nags": ""} | texts
    return StudyMove(number, parent, 9, "", uci, "", texts["before"], texts["comment"], texts["nags"])


def names(path: Path) -> list[str]:
    return [one.name for one in list_studies(path).studies]


# ------------------------------------------------------------------ changes
def test_a_study_is_changed_move_by_move(graph: Path, study: int) -> None:
    found, tree = load_study(graph, NAME)
    assert (found.id, found.revision, found.last) == (study, 1, 6)
    assert [tree.moves[k].san for k in tree.below(0)] == ["e4", "e5", "Nf3", "Nc6", "c5", "Nf3"]
    change = StudyChange(put=[move(7, 4, "d7d6"), move(1, 0, "e2e4", comment="better", nags="3")], drop=[2])
    assert change_study(graph, study, change, 1).revision == 2
    assert "1. e4 $3 { better } 1... c5 $14 2. Nf3 d6 *" in export_studies(graph, [NAME])
    assert verify(graph).ok


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (StudyChange(put=[move(7, 6, "e2e4")]), "not a legal move"),
        (StudyChange(put=[move(7, 6, "0000")]), "not a legal move"),
        (StudyChange(put=[move(7, 99, "d7d6")]), "hangs on move 99"),
        (StudyChange(drop=[99]), "no move 99"),
        (StudyChange(name=" \n"), "needs a name"),
    ],
)
def test_a_wrong_change_is_refused_as_a_whole(
    graph: Path, study: int, change: StudyChange, reason: str
) -> None:
    before = export_studies(graph, [])
    with pytest.raises(InvalidParameterError, match=reason):
        change_study(graph, study, change, 1)
    assert export_studies(graph, []) == before
    assert load_study(graph, study)[0].revision == 1


def test_a_number_is_never_given_twice(graph: Path, study: int) -> None:
    change_study(graph, study, StudyChange(drop=[4]))
    with pytest.raises(InvalidParameterError, match="move 4 is not there any more"):
        change_study(graph, study, StudyChange(put=[move(4, 3, "d7d6")]))
    delete_study(graph, study)
    assert create_study(graph, NAME, None, StudyChange()).id > study


def test_whoever_has_not_seen_a_change_is_refused(graph: Path, study: int) -> None:
    change_study(graph, study, StudyChange(comment="first"), 1)
    with pytest.raises(ChangedMeanwhileError, match="changed elsewhere"):
        change_study(graph, study, StudyChange(comment="second"), 1)
    with pytest.raises(ChangedMeanwhileError):
        delete_study(graph, study, 1)
    board = chess.Board()
    write_note(graph, board, "one", 0)
    with pytest.raises(ChangedMeanwhileError):
        write_note(graph, board, "two", 0)
    write_note(graph, board, "two", 1)
    assert note_on(graph, board).as_dict()["text"] == "two"
    write_note(graph, board, "", 2)
    write_note(graph, board, "another", 0)
    for past in (1, 2):  # of the deleted note
        with pytest.raises(ChangedMeanwhileError):
            write_note(graph, board, "of a window that knows the first one", past)


def test_names_are_unique(graph: Path, study: int) -> None:
    import_studies(graph, PGN.splitlines(keepends=True), "a.pgn")
    assert names(graph) == [NAME, f"{NAME} (2)"]
    with pytest.raises(InvalidParameterError, match="already"):
        change_study(graph, study, StudyChange(name=f"{NAME} (2)"))
    with pytest.raises(InvalidParameterError, match="no study 'x'"):
        load_study(graph, "x")


def test_an_import_that_fails_leaves_nothing(
    graph: Path, study: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []

    def failing(connection: sqlite3.Connection, number: int, moves: object) -> None:
        calls.append(number)
        if len(calls) == 2:
            raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(rows, "put_moves", failing)
    with pytest.raises(StoreError, match="full"):
        import_studies(graph, [*(PGN * 3).splitlines(keepends=True)], "a.pgn")
    assert (names(graph), len(calls)) == ([NAME], 2)


def test_limits_of_an_import_are_told(graph: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHSEARCH_MAX_STUDIES", "2")
    report = import_studies(graph, [*(PGN * 4).splitlines(keepends=True)], "a.pgn")
    assert len(report.studies) == 2
    assert "game 3 and all behind it" in report.problems[0]
    monkeypatch.setenv("GRAPHSEARCH_MAX_STUDY_MOVES", "6")
    with pytest.raises(InvalidParameterError, match="at most 6 moves"):
        change_study(graph, report.studies[0].id, StudyChange(put=[move(7, 4, "d7d6")]))


# ------------------------------------------------------------------ beside other work
def test_a_note_is_seen_from_every_line_and_belongs_to_its_rooks(graph: Path) -> None:
    one, other = chess.Board(), chess.Board()
    for san in ("e4", "e5", "Nf3"):
        one.push_san(san)
    for san in ("Nf3", "e5", "e4"):
        other.push_san(san)
    write_note(graph, one, " first\r\nsecond ")
    assert note_on(graph, other).as_dict()["text"] == "first\nsecond"
    inner, outer = (board_of(f"4k3/8/8/8/8/8/8/4KRR1 w {rook} - 0 1") for rook in "FG")
    write_note(graph, inner, "the inner rook")
    assert note_on(graph, outer).note is None
    write_note(graph, one, "  ")
    assert [note.text for note in list_notes(graph).notes] == ["the inner rook"]


def test_a_note_names_the_studies_that_reach_its_position(graph: Path, study: int) -> None:
    board = chess.Board()
    for san in ("e4", "c5", "Nf3"):
        board.push_san(san)
    assert note_on(graph, board).as_dict()["studies"] == [{"id": study, "name": NAME, "move": 4}]


# ------------------------------------------------------------------ upkeep
def test_backup_compact_and_salvage_keep_studies_and_notes(graph: Path, study: int, tmp_path: Path) -> None:
    write_note(graph, chess.Board(), "a note")
    compact(graph)
    before = export_studies(graph, []), list_notes(graph)
    backup(graph, tmp_path / "copy.graph")
    assert salvage(graph, tmp_path / "new.graph").complete
    for name in ("copy.graph", "new.graph"):
        assert (export_studies(tmp_path / name, []), list_notes(tmp_path / name)) == before
        assert load_study(tmp_path / name, study)[0].revision == 1


def test_a_merge_loses_no_study_and_adds_none_twice(graph: Path, study: int, tmp_path: Path) -> None:
    other = tmp_path / "b.graph"
    shutil.copy(graph, other)
    change_study(other, study, StudyChange(put=[move(7, 4, "d7d6")]))
    write_note(graph, chess.Board(), "ours")
    write_note(other, chess.Board(), "theirs")
    for _ in range(2):
        merge([other], into=graph)
        assert names(graph) == [NAME, f"{NAME} (2)"]
        assert note_on(graph, chess.Board()).as_dict()["text"] == "ours\n\ntheirs"
    assert ["2. Nf3 d6" in export_studies(graph, [name]) for name in names(graph)] == [False, True]
    assert verify(graph).ok


def test_a_move_that_hangs_on_nothing_is_named_and_left_out(graph: Path, study: int) -> None:
    with closing(sqlite3.connect(graph, isolation_level=None)) as connection:
        connection.execute("DELETE FROM study_move WHERE id = 3")
        connection.execute("UPDATE study_move SET parent = 6 WHERE id = 5")  # a ring
    _, tree = load_study(graph, study)
    assert tree.lost == {4, 5, 6}
    assert "1. e4 { good } 1... e5 *" in export_studies(graph, [study])


# ------------------------------------------------------------------ undo and redo
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


def imported(path: Path) -> int:
    return import_studies(path, PGN.splitlines(keepends=True), "a.pgn").studies[0].id


def test_a_deleted_study_comes_back_as_it_was_and_goes_again(small_graph: Path) -> None:
    number = imported(small_graph)
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
    number = imported(small_graph)
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
