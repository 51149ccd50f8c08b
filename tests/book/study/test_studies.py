"""Studies, notes and repertoires: merges, rescues and PGN lose nothing, and undo goes back."""

from __future__ import annotations

import io
import random
import re
import shutil
import sqlite3
from pathlib import Path

import chess
import chess.pgn
import chess.polyglot
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphsearch.base import errors
from graphsearch.book.build import build
from graphsearch.book.config import parse_config
from graphsearch.book.questions import why
from graphsearch.book.study import repertoire, studies
from graphsearch.exchange.exports import export
from graphsearch.exchange.importing import GivenFile
from graphsearch.exchange.selection import Selection
from graphsearch.graph.sweeps.merge import merge
from graphsearch.position.board import key_text
from graphsearch.store.backup import backup
from graphsearch.store.file import changing, opened_to_read
from graphsearch.store.provenance import EvaluatorIdentity
from graphsearch.store.rewrite import compact
from graphsearch.store.salvage import salvage
from graphsearch.store.store import Store
from graphsearch.store.tables import studies as tables
from graphsearch.store.tables.books import books
from graphsearch.store.verify import verify

from ...conftest import Cli, present, shared_data, sql
from ...fuzz.pgn_games import generated
from ...query.handmade import LINES, graph_file
from ...support.positions import after_line

PGN = '[White "Ann"]\n[Black "Bob"]\n\n1. e4 {good} e5 (1... c5 $14 2. Nf3) 2. Nf3 Nc6 *\n'
NAME = "Ann \N{EN DASH} Bob"


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    path = tmp_path / "a.graph"
    Store.open(path, create=True, identity=EvaluatorIdentity("uniform")).close()
    return path


def imported(path: Path, text: str = PGN) -> studies.ImportedStudies:
    return studies.import_studies(path, GivenFile("a.pgn", io.BytesIO(text.encode())))


@pytest.fixture
def study(graph: Path) -> int:
    return imported(graph).studies[0].id


def said(text: str, *line: str) -> chess.pgn.Game:
    """Returns a game with a comment before its first move."""
    moves = (studies.MoveRow(number, number - 1, uci) for number, uci in enumerate(line, start=1))
    return studies.game_of(chess.Board(), moves, comment=text)


def names(path: Path) -> list[str]:
    return [one.name for one in studies.list_studies(path)]


def test_null_moves_in_variations_are_kept_in_the_text_and_end_lines_elsewhere(graph: Path) -> None:
    text = "1. e4 ( 1. d4 -- 2. c4 d5 ) 1... e5 2. Nf3 *"
    report = imported(graph, f'[White "Ann"]\n\n{text}\n')
    assert (report.problems, report.studies[0].moves) == ([], 4)
    assert text in studies.export_studies(graph, [])
    _, game = studies.load_study(graph, report.studies[0].id)
    assert [row.san for row in studies.rows_of(game.tree)] == ["e4", "e5", "Nf3", "d4"]
    assert "a null move; 2 more with it" in game.left_out[0]
    assert studies.note_on(graph, after_line("d4")).studies[0][2] == 4
    assert verify(graph).ok


# ------------------------------------------------------------------ changes
def test_a_study_is_changed_as_a_whole(graph: Path, study: int) -> None:
    found, game = studies.load_study(graph, NAME)
    assert (found.id, found.revision, found.moves) == (study, 1, 6)
    rows = list(studies.rows_of(game.tree))
    assert [row.san for row in rows] == ["e4", "e5", "Nf3", "Nc6", "c5", "Nf3"]
    rows[0] = rows[0]._replace(comment="better", nags=(3,))
    rows = [rows[0], *rows[4:], studies.MoveRow(7, 6, "d7d6")]
    changed = studies.change_study(graph, study, game=studies.game_of(chess.Board(), rows), revision=1)
    assert (changed.revision, changed.moves) == (2, 4)
    assert "1. e4 $3 { better } 1... c5 $14 2. Nf3 d6 *" in studies.export_studies(graph, [NAME])
    found_in = [studies.note_on(graph, after_line(text)).studies for text in ("e4 e5", "e4 c5")]
    assert found_in == [(), ((study, NAME, 2),)]
    assert verify(graph).ok
    for name, reason in ((" \n", "needs a name"), ("x", "no study 'x'")):
        with pytest.raises(errors.InvalidParameterError, match=reason):
            studies.change_study(graph, name if name == "x" else study, name=name)
    assert studies.load_study(graph, study)[0].revision == 2


def test_whoever_has_not_seen_a_change_is_refused(graph: Path, study: int) -> None:
    studies.change_study(graph, study, game=said("first"), revision=1)
    with pytest.raises(errors.ChangedMeanwhileError, match="changed elsewhere"):
        studies.change_study(graph, study, game=said("second"), revision=1)
    with pytest.raises(errors.ChangedMeanwhileError):
        studies.delete_study(graph, study, 1)
    board = chess.Board()
    for text, revision, past in (("one", 0, (0,)), ("two", 1, ()), ("", 2, ()), ("another", 0, (1, 2))):
        studies.write_note(graph, board, text, revision)
        assert studies.note_on(graph, board).as_dict()["text"] == text
        for old in past:  # also of the deleted note
            with pytest.raises(errors.ChangedMeanwhileError):
                studies.write_note(graph, board, "of a window that knows another one", old)


def test_an_import_that_fails_leaves_nothing(
    graph: Path, study: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []

    def failing(connection: sqlite3.Connection, number: int, keys: object) -> None:
        calls.append(number)
        if len(calls) == 2:
            raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(tables, "write_keys", failing)
    with pytest.raises(errors.StoreError, match="full"):
        imported(graph, PGN * 3)
    assert (names(graph), len(calls)) == ([NAME], 2)


# ------------------------------------------------------------------ upkeep
def test_backup_compact_and_salvage_keep_studies_and_notes(graph: Path, study: int, tmp_path: Path) -> None:
    studies.write_note(graph, chess.Board(), "a note")
    compact(graph)
    before = studies.export_studies(graph, []), studies.list_notes(graph)
    backup(graph, tmp_path / "copy.graph")
    assert salvage(graph, tmp_path / "new.graph").complete
    for name in ("copy.graph", "new.graph"):
        assert (studies.export_studies(tmp_path / name, []), studies.list_notes(tmp_path / name)) == before
        assert studies.load_study(tmp_path / name, study)[0].revision == 1


def test_a_merge_loses_no_study_and_adds_none_twice(graph: Path, study: int, tmp_path: Path) -> None:
    other = tmp_path / "b.graph"
    shutil.copy(graph, other)
    studies.change_study(other, study, game=said("changed", "e2e4"))
    studies.write_note(graph, chess.Board(), "ours")
    studies.write_note(other, chess.Board(), "theirs")
    for _ in range(2):
        merge([other], into=graph)
        assert names(graph) == [NAME, f"{NAME} (2)"]
        assert studies.note_on(graph, chess.Board()).as_dict()["text"] == "ours\n\ntheirs"
    assert ["changed" in studies.export_studies(graph, [name]) for name in names(graph)] == [False, True]
    assert [one.name for one in studies.list_studies(graph) if one.moves == 1] == [f"{NAME} (2)"]
    assert verify(graph).ok


def test_a_damaged_study_is_shown_as_far_as_it_can_be_read(graph: Path, study: int) -> None:
    sql(graph, "UPDATE study SET pgn = replace(pgn, '2. Nf3 Nc6', '2. Nf9 Nc6')")
    _, game = studies.load_study(graph, study)
    assert "Nf9" in " ".join(game.left_out)
    assert [row.san for row in studies.rows_of(game.tree)] == ["e4", "e5", "c5", "Nf3"]
    sql(graph, "UPDATE study SET pgn = ''")
    with pytest.raises(errors.StoreError, match="its PGN has no game"):
        studies.load_study(graph, study)


# ------------------------------------------------------------------ undo and redo
BOARD = chess.Board()
WRITTEN = (*tables.EDITED, "study_position")


def test_what_another_program_has_changed_is_not_overwritten(small_graph: Path) -> None:
    studies.write_note(small_graph, BOARD, "one")
    with changing(small_graph) as connection:
        connection.execute("UPDATE note SET text = 'mine'")
    with pytest.raises(errors.ChangedMeanwhileError, match="note"):
        studies.turn_edit(small_graph, "undo")
    assert present(studies.note_on(small_graph, BOARD).note).text == "mine"


def test_a_damaged_log_is_refused(small_graph: Path) -> None:
    for text in ("[1]", "{}", "no json", '["k", "f", 7, 1, "x"]'):
        studies.write_note(small_graph, BOARD, "one")
        with changing(small_graph) as connection:
            connection.execute("UPDATE edit SET new = ?", (text,))
        with pytest.raises(errors.StoreError, match="edit"):
            studies.turn_edit(small_graph, "undo")
        studies.write_note(small_graph, BOARD, "")


ACTS = st.sampled_from(["note", "erase", "line", "other", "remove", "study", "delete", "undo", "redo"])


def tables_of(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """Returns what the edited tables hold, without the columns that only grow."""
    growing = {"study": "id, name, pgn, moves", "note": "key, fen, text"}
    with opened_to_read(path) as connection:
        return {t: sorted(connection.execute(f"SELECT {growing.get(t, '*')} FROM {t}")) for t in WRITTEN}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(st.lists(ACTS, max_size=12))
def test_undo_and_redo_go_through_the_states_of_a_file(small_graph: Path, acts: list[str]) -> None:
    """Holds the file beside a list of all its states."""
    with changing(small_graph) as connection:
        tables.forget_edits(connection)
        for table in WRITTEN:
            connection.execute(f"DELETE FROM {table}")
    states, at = [tables_of(small_graph)], 0
    for k, act in enumerate(acts):
        if act in ("undo", "redo"):
            turned = studies.turn_edit(small_graph, "undo" if act == "undo" else "redo")
            wanted = at + (1 if act == "redo" else -1)
            assert (turned is not None) == (0 <= wanted < len(states))
            at = wanted if turned else at
        else:
            _act(small_graph, act, k)
            found = tables_of(small_graph)
            if found != states[at]:
                states[at + 1 :], at = [found], at + 1
        assert tables_of(small_graph) == states[at]


def _act(path: Path, act: str, k: int) -> None:
    known = studies.list_studies(path)
    if act in ("note", "erase"):
        studies.write_note(path, BOARD, f"note {k}" if act == "note" else "")
    elif act in ("line", "other"):
        repertoire.add_line(path, "white", after_line("e4 e5 Nf3" if act == "line" else "e4 c5"))
    elif act == "remove":
        if repertoire.load(path, "white").size:
            repertoire.remove_move(path, "white", after_line("e4"))
    elif act == "study":
        studies.create_study(path, f"study {k}", said(f"{k}", "e2e4"))
    elif known:
        studies.delete_study(path, known[0].id)


# ------------------------------------------------------------------ PGN, with python-chess as the judge
def read(text: str) -> list[studies.StudyGame]:
    return list(studies.read_games(io.StringIO(text, None), "a.pgn"))


def judged(text: str) -> str:
    """Returns what python-chess writes of what it reads."""
    game = present(chess.pgn.read_game(io.StringIO(text)))
    assert game.errors == []
    return game.accept(chess.pgn.StringExporter()) + "\n"


NOTES = '{ before [%cal Ge2e4] } 1. e4 { <b>x</b> "y" and \\ } ( { instead } 1. d4 $1 ) 1... e5 $3 $14 *\n'


def test_a_game_comes_out_as_python_chess_writes_it() -> None:
    for text in (NOTES, *(generated(random.Random(seed)) for seed in range(30))):
        ordered = re.sub(r"(.SetUp.*\n)(.FEN.*\n)", r"\2\1", text.replace("\n\n\n", "\n\n"))
        written = judged(ordered.replace("\u00a0", " "))
        (game,) = read(written)
        assert game.left_out == []
        assert studies.text_of(game.tree) == judged(studies.text_of(game.tree)) == written


@pytest.mark.parametrize(
    ("text", "kept", "reasons"),
    [
        ("1. e4 Nx9 2. e5 d4 *", "1. e4 *", ("not a move", "ends before 'Nx9'", "2 more with it")),
        ("1. e4 -- 2. d4 *", "1. e4 *", ("a null move; 1 more with it",)),
        ("1. e4 (1. d4 -- 2. c4) 1... e5 *", "1. e4 ( 1. d4 ) 1... e5 *", ("a null move; 1 more",)),
        ("1. e4 (1. Ke8 e5) 1... e5 *", "1. e4 e5 *", ("Ke8 is illegal",)),
        ("1. e4 $256 e5 $12345 $3 *", "1. e4 e5 $3 *", ("$256 is no glyph", "$12345 is no glyph")),
        ("(1. d4) 1. e4 *", "1. d4 *", ("a ( that begins no variation", "ends before 'e4'")),
        ("1. e4 e5 ; a } b\n*", "1. e4 e5 { a ) b } *", ("a } , which is kept as )".replace("} ,", "},"),)),
        ('[FEN "x"]\n\n1. e4 *', "*", ("no move is kept",)),
        ('[Variant "Atomic"]\n\n1. e4 *', "*", ("Atomic, not chess",)),
        ('[Result "won"]\n\n1. e4 *', "1. e4 *", ("'won' is no result",)),
    ],
)
def test_what_is_left_out_has_its_line_and_its_reason(text: str, kept: str, reasons: tuple[str, ...]) -> None:
    (game,) = read(text)
    assert studies.text_of(game.tree).rstrip().rpartition("\n\n")[2].replace("\n", " ") == kept
    told = " | ".join(game.left_out)
    assert all(reason in told for reason in reasons), told
    assert all(line.startswith("a.pgn, game 1, line ") for line in game.left_out)


def test_variations_may_be_nested_deeper_than_python_recurses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphsearch.position.pgn.DEEPEST", 1300)
    moves = [chess.Board().san(move) for move in chess.Board().legal_moves]
    depth, most = 1200, 1300
    text = " ( ".join(moves[k % 20] for k in range(depth)) + " )" * (depth - 1) + " *"
    (game,) = read(text)
    assert (len(list(studies.rows_of(game.tree))), game.left_out) == (depth, [])
    assert judged(studies.text_of(game.tree)) == studies.text_of(game.tree)
    (deeper,) = read(" ( ".join("e4" for _ in range(most + 2)) + " )" * (most + 1) + " *")
    assert "more than 1,300 variations within each other" in deeper.left_out[0]


def test_a_game_of_chess960_with_castling_comes_back() -> None:
    board = chess.Board("rk5r/8/8/8/8/8/8/RK5R w HAha - 0 1", chess960=True)
    game = chess.pgn.Game()
    game.setup(board)
    castling = next(move for move in board.legal_moves if board.is_kingside_castling(move))
    node = game.add_variation(castling)
    node.add_variation(next(move for move in node.board().legal_moves if node.board().is_castling(move)))
    text = game.accept(chess.pgn.StringExporter()) + "\n"
    (found,) = read(text)
    assert found.left_out == []
    assert next(studies.rows_of(found.tree)).san == "O-O"
    assert studies.text_of(found.tree) == text == judged(text)


def test_a_study_loses_nothing_in_silence() -> None:
    games = read(shared_data("faults/study_loss/study.pgn").read_text("utf-8"))
    assert [game.tree.headers["Event"].split()[0] for game in games] == [
        *("Course:", "Duplicate", "Variation", "Empty", "Chapter:", "Draw-offer"),
    ]
    course, *_, mate, empty, chapter, draw = games
    assert course.tree.headers["FooBar"] == 'a "quoted" \\ value'
    assert course.tree.comment == "Start comment one Start comment two"
    assert [line.partition(", line ")[2] for line in course.left_out] == [
        "11: a comment has a }, which is kept as )",
        "11: the line ends before '--': a null move; 2 more with it",
    ]
    assert mate.tree.end().comment == "mate after the result"
    assert (empty.tree.comment, empty.left_out) == ("only a comment", [])
    assert chapter.tree.board().fen() == "8/8/8/4k3/8/8/4P3/4K3 w - - 0 1"
    assert (len(list(studies.rows_of(chapter.tree))), chapter.left_out) == (5, [])
    assert (len(list(studies.rows_of(draw.tree))), draw.tree.end().comment) == (5, "only comment")
    assert "passed over '='" in draw.left_out[0]


# ------------------------------------------------------------------ repertoires
MORE = LINES | {"e4 c5": {"Nf3": (18, 0.2), "d4": (12, -0.15)}}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return graph_file(tmp_path / "file.graph", MORE)


def surveyed(path: Path, *lines: str, side: str = "white") -> repertoire.Survey:
    for line in lines:
        repertoire.add_line(path, side, after_line(line))
    return repertoire.survey(path, side)


def lines_of(found: repertoire.Survey) -> set[str]:
    return {" ".join((*one.at.line, move.san)) for one in found.positions for move in one.replies}


def test_a_line_adds_its_own_moves_and_the_replies_they_meet_once(file: Path) -> None:
    board = after_line("e4 e5 Nf3")
    assert repertoire.add_line(file, "white", board) == repertoire.RepertoireChange("white", 3, 0, 3)
    assert repertoire.add_line(file, "white", board).added == 0
    assert repertoire.add_line(file, "white", after_line("e4 c5 Nf3")).added == 2
    found = repertoire.survey(file, "white")
    assert (found.own, found.moves) == (3, 5)
    assert lines_of(found) == {"e4", "e4 e5", "e4 e5 Nf3", "e4 c5", "e4 c5 Nf3"}
    assert repertoire.survey(file, "black").moves == 0
    assert verify(file).problems == []


def test_a_removed_move_takes_along_what_only_it_reached(file: Path) -> None:
    surveyed(file, "e4 e5 Nf3 Nc6 Bb5", "Nf3 e5 e4", "e4 c5 Nf3")
    change = repertoire.remove_move(file, "white", after_line("e4 e5 Nf3"))
    assert (change.removed, change.moves) == (1, 9)
    assert "Nf3 e5 e4 Nc6 Bb5" in lines_of(
        repertoire.survey(file, "white")
    )  # reached by the other order, too
    change = repertoire.remove_move(file, "white", after_line("Nf3"))
    assert lines_of(repertoire.survey(file, "white")) == {"e4", "e4 e5", "e4 c5", "e4 c5 Nf3"}
    with pytest.raises(errors.InvalidPositionError, match="white's repertoire does not have Nf3 in "):
        repertoire.remove_move(file, "white", after_line("Nf3"))
    repertoire.remove_move(file, "white", after_line("e4"))
    found = repertoire.load(file, "white")
    assert (found.tree.positions, found.size) == ({}, 0)


def test_a_merge_keeps_the_moves_of_both_repertoires(file: Path, tmp_path: Path) -> None:
    other = graph_file(tmp_path / "b.graph", MORE)
    surveyed(file, "e4 e5 Nf3", "d4")
    surveyed(other, "e4 c5 Nf3", "e4 e5 Nf3 Nc6 Bb5")
    merge([other], into=file)
    lines = {"e4", "d4", "e4 e5", "e4 c5", "e4 e5 Nf3", "e4 c5 Nf3", "e4 e5 Nf3 Nc6", "e4 e5 Nf3 Nc6 Bb5"}
    assert lines_of(repertoire.survey(file, "white")) == lines
    assert verify(file).problems == []


def test_a_repertoire_is_a_book_by_its_name(file: Path, graph: Path, tmp_path: Path, cli: Cli) -> None:
    surveyed(file, "e4 e5 Nf3", "e4 c5 Nf3")
    with Store.open(file, read_only=True) as store:
        assert [book.name for book in books(store)] == []
        assert [book.side for book in books(store, repertoires=True)] == ["white"]
    found = why(file, after_line("e4 e5"), "white repertoire")
    (own,) = (one for one in found.verdicts if one.admitted)
    assert (own.reason, own.candidate.value) == ("chosen by a person", present(own.candidate.q))
    surveyed(graph, "e4 e5 Nf3", "e4 e5 Bc4")  # never searched
    cli("export", graph, "-o", tmp_path / "a.pgn").ends(2, "name one with --book: 'white repertoire'")
    for form in ("polyglot", "pgn"):
        export(form, graph, tmp_path / form, Selection(book="white repertoire"), comments=True)
    assert (tmp_path / "pgn").read_text().split("]")[-1].startswith("\n\n1. e4 { N 0 } 1... e5 ")
    with chess.polyglot.open_reader(tmp_path / "polyglot") as entries:
        assert sorted((entry.move.uci(), entry.weight) for entry in entries)[1:] == [("f1c4", 1), ("g1f3", 1)]
    cli("repertoire", "add", graph, "8/8/8/8/8/8/k6P/4K3 w - - 0 1", "--moves", "h4", "--side", "white")
    repertoire.add_line(graph, "white", after_line("f3 e5 g4 Qh4"))
    shown = cli("repertoire", "show", graph).out
    assert "\n8/8/8/8/8/8/k6P/4K3 w - - 0 1\n1. h4 " in shown
    assert re.search(r"2\.\.\. Qh4#  .*100%  A00 ", shown), "a mate needs no answer"
    head = '[book]\nname = "white repertoire"\nside = "white"\nmax_ply = 4\n'
    config = parse_config(f'{head}[evaluator]\nname = "uniform"\n', tmp_path, "a")
    with pytest.raises(errors.InvalidParameterError, match="is a repertoire; give the book another name"):
        build(file, config)


def test_a_likely_reply_without_an_answer_is_a_gap_with_its_weight(file: Path) -> None:
    gaps = {(*gap.at.line, gap.san): gap for gap in surveyed(file, "e4 e5 Nf3").gaps}
    sicilian = gaps["e4", "c5"]
    assert (sicilian.n, sicilian.games) == (19, 0)
    assert sicilian.share == sicilian.reach == sicilian.p
    assert ("e4", "e5") not in gaps
    assert ("e4", "e5", "Nf3", "Nc6") in gaps  # where the line ends
    assert ("e4", "c5") not in {(*gap.at.line, gap.san) for gap in surveyed(file, "e4 c5 Nf3").gaps}


def test_a_losing_and_an_unsearched_own_move_are_weak_spots(file: Path) -> None:
    found = surveyed(file, "e4 c5 d4", "e4 e5 Nf3", "e4 e5 Bc4")
    weak = {(*spot.at.line, spot.move.san): spot.move for spot in found.weak}
    assert (weak["e4", "c5", "d4"].nag, weak["e4", "c5", "d4"].best_san) == (4, "Nf3")
    assert weak["e4", "c5", "d4"].loss == pytest.approx(0.35)
    assert weak["e4", "e5", "Bc4"].q is None
    assert ("e4", "e5", "Nf3") not in weak


def test_a_repertoire_goes_out_as_pgn_and_comes_in_again(file: Path, tmp_path: Path) -> None:
    surveyed(file, "e4 e5 Nf3 Nc6 Bb5", "Nf3 e5 e4", "e4 c5 Nf3", "e4 c5 d4")
    text = repertoire.pgn_of_repertoire(file, "white")
    game = present(chess.pgn.read_game(io.StringIO(text)))
    assert not game.errors
    assert game.board() == chess.Board()
    assert text.count("transposes to 1. e4 e5 2. Nf3") == 1
    assert text.count("Bb5") == 1
    other = graph_file(tmp_path / "b.graph", MORE)
    report = repertoire.import_file(other, "white", GivenFile("a.pgn", io.BytesIO(text.encode())))
    assert (report.games, report.problems) == (1, [])
    assert (
        repertoire.load(other, "white").tree.positions.keys()
        == repertoire.load(file, "white").tree.positions.keys()
    )
    assert lines_of(repertoire.survey(other, "white")) == lines_of(repertoire.survey(file, "white"))
    assert repertoire.pgn_of_repertoire(other, "white") == text


def test_the_toml_is_a_book_that_keeps_to_the_repertoire(file: Path, tmp_path: Path) -> None:
    surveyed(file, "e4 e5 Nf3", "e4 c5 Nf3")
    config = parse_config(repertoire.toml_of_repertoire(file, "white", "mine"), tmp_path, "mine.toml")
    assert (config.name, config.side, config.max_ply) == ("mine", "white", 3 + 4)
    assert len(config.roots) == 1
    reply, own = key_text(after_line("e4")), key_text(after_line("e4 c5"))
    assert set(config.forced[reply]) == {"c7c5", "e7e5"}
    assert config.forced[own] == ("g1f3",)
    assert (reply in config.only, own in config.only) == (False, True)
    assert config.notes == ()
