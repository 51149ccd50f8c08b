"""What people and programs write: moves, FENs, lines in bulk, games, names of openings, scores in pawns."""

from __future__ import annotations

import io
import random
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from functools import cache
from itertools import combinations
from pathlib import Path

import chess
import chess.pgn
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphsearch import Graph, Limits, analyze, show
from graphsearch.base.errors import InvalidPositionError
from graphsearch.base.limits import decoded, toml_tables
from graphsearch.exchange.epd_import import read_epd
from graphsearch.position.board import fen_of, fens, key_of, legal_moves, unpack
from graphsearch.position.notation import board_from_fen, read_fen_lines, read_position
from graphsearch.position.openings import DEEPEST, opening_at
from graphsearch.position.pgn import ReadGame, cut_games, read_game
from graphsearch.position.values import D_SCALE, WDL, cp_of, rounded_shares, wdl_from_q
from graphsearch.store.store import Store
from tests.conftest import Cli, present, shared_data
from tests.exchange.exported import made_record
from tests.fuzz.pgn_games import run
from tests.store.records import filled
from tests.support.positions import after_line, random_games
from tests.uci.engines import Played, field_of
from tools.openings import TABLE, written

START = chess.STARTING_FEN
Pgn = Callable[[str], str]


@pytest.fixture
def pgn(tmp_path: Path) -> Pgn:
    def write(text: str, encoding: str = "utf-8") -> str:
        path = tmp_path / "game.pgn"
        path.write_bytes(text.encode(encoding))
        return str(path)

    return write


@cache
def random_boards() -> list[chess.Board]:
    return random_games(seed=3, count=30, plies=40)


def test_every_legal_move_is_read_as_san_and_as_uci() -> None:
    for board in random_boards():
        assert read_position("startpos", moves=chess.Board().variation_san(board.move_stack)).board == board
        moves = " ".join(move.uci() for move in board.move_stack)
        assert read_position("startpos", moves=moves).board.move_stack == board.move_stack


@pytest.mark.parametrize(
    "fen",
    [
        "4k3/8/8/8/8/8/4P3/4K3 b - e3 7 12",
        "4k3/8/8/8/8/8/8/R3K3 w KQ - 0 1",
        "4k3/8/8/8/8/8/8/4K3 b KQkq - 0 1",
        "8/8/8/8/8/8/8/4K3 w - -",
        "QQQQkQQQ/QQQQQQQQ/8/8/8/8/8/4K3 w - - 3 9",
        "4k3/8/8/8/8/8/8/4K3 w - - 300 9",
    ],
)
def test_an_illegal_position_is_named_by_the_fen_that_was_given(fen: str) -> None:
    with pytest.raises(InvalidPositionError) as caught:
        board_from_fen(fen)
    assert fen in str(caught.value)


@given(st.text(max_size=60))
def test_any_text_is_a_list_of_moves_or_a_clear_error(text: str) -> None:
    with suppress(InvalidPositionError):  # any other error fails the test
        read_position("startpos", moves=text)


@pytest.mark.parametrize(
    "moves",
    [
        "e4 e5 Nf3",
        "1. e4 e5 2. Nf3",
        "1.e4 e5 2.Nf3",
        "e2e4,e7e5,g1f3",
        "1. e4 1... e5 2. Nf3!?",
        " e4\ne5\tNf3 ",
    ],
)
def test_move_lists_may_have_numbers_commas_and_glyphs(moves: str) -> None:
    board = read_position("startpos", moves=moves).board
    assert [move.uci() for move in board.move_stack] == ["e2e4", "e7e5", "g1f3"]
    castling = "r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 0 1"
    ends = {read_position(castling, moves=move).board.fen() for move in ("O-O", "0-0", "e1g1", "e1h1")}
    assert len(ends) == 1


@pytest.mark.parametrize(
    ("fen", "message"),
    [
        ("startpos moves e4 e5 Ke3", r"move 3 of the list, 'Ke3', is illegal in .* w KQkq - 0 2"),
        ("startpos moves d4 d5 Nf3 e6 Nd2", r"move 5 of the list, 'Nd2', is ambiguous \(Nbd2 or Nfd2\)"),
        ("startpos moves e4 hello", "move 2 of the list, 'hello', is neither"),
        ("startpos moves e4 --", "null move"),
        ("startpos moves e4 0000", "null move|neither"),
        ("startpos moves e2e5", "'e2e5', is illegal"),
        ("rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR", "in quotes"),
        ("rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w", "at least four fields"),
        ("rnbqkbnr/pppppppp/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1", "8 rows"),
        ("rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR x KQkq - 0 1", "expected 'w' or 'b'"),
        ("8/8/8/8/8/8/8/8 w - - 0 1", "no white king"),
        ("4k3/8/8/8/8/8/8/4K2r b - - 0 1", "opposite check"),
        ("rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBN1 w KQkq - 0 1", "bad castling rights"),
        ("4k3/8/8/8/8/8/8/4K3 w - - 999 1", "halfmove clock 999"),
        ("4k3/8/8/8/8/8/8/4K3 w - - 0 1 Kd2", "moves follow 'moves'"),
        ("4k3/8/8/8/8/8/8/4K3 w - - -1 1", "negative"),
        ("", "empty position"),
        ("no-such-file.pgn", "no file 'no-such-file.pgn'"),
        ("chess960:960", "0 to 959"),
        ("4k3/8/8/8/8/8/8/R3K3 w K - 0 1", "bad castling rights.*: '4k3/8/8/8/8/8/8/R3K3 w K - 0 1"),
        ("4k3/8/8/8/8/8/8/4K1RR w E - 0 1", "bad castling rights.* w E - "),
        ("4k3/8/8/8/8/4K3/8/R7 w A - 0 1", "bad castling rights"),
    ],
)
def test_a_bad_position_or_move_is_refused_with_its_reason(fen: str, message: str) -> None:
    with pytest.raises(InvalidPositionError, match=message):
        read_position(fen)


def test_a_game_is_read_to_its_end_or_to_a_ply_with_its_history(pgn: Pgn) -> None:
    path = pgn('[White "A"]\n\n1. e4 e5 (1... c5 2. Nf3) 2. Nf3 {best} Nc6 $1 1/2-1/2\n')
    assert [move.uci() for move in read_position(path).board.move_stack] == ["e2e4", "e7e5", "g1f3", "b8c6"]
    assert read_position(path, ply=0).board.fen() == START
    assert read_position(path, ply=3, moves="d6").board.move_stack[-1] == chess.Move.from_uci("d7d6")


BROKEN, TWO = "1. e4 e5 2. Ke3 Nc6 *\n", '[White "A"]\n\n1. e4 *\n\n[White "B"]\n\n1. d4 d5 *\n'


def test_games_are_counted_from_one_and_a_choice_that_was_not_made_is_noted(pgn: Pgn) -> None:
    first, second = read_position(pgn(TWO)), read_position(pgn(TWO), game=2)
    assert len(first.board.move_stack) == 1
    assert "holds more games" in first.notes[0]
    assert (len(second.board.move_stack), second.notes) == (2, ())


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (TWO, {"game": 3}, "holds fewer"),
        (TWO, {"ply": 5}, "has 1 ply; there is no ply 5"),
        (BROKEN, {}, "breaks off after 2 plies: Ke3 is illegal"),
        (BROKEN, {"ply": 3}, "breaks off after 2 plies"),
        ("1. e4 e5 2. Nf9 *\n", {}, "'Nf9', which is not a move"),
        ("1. e4 e5 2. -- Nc6 *\n", {}, "null move"),
        ('[Variant "Atomic"]\n\n1. e4 *\n', {}, "is Atomic; only standard chess"),
        ('[Variant "Nonsense"]\n\n1. e4 *\n', {}, "is Nonsense; only standard chess"),
        ('[FEN "nonsense"]\n\n1. e4 *\n', {}, "breaks off after 0 plies"),
        ("plain words, no game at all\n", {}, "neither headers nor moves"),
        ("", {}, "has no games"),
        ("SQLite format 3\0", {}, "--store"),
        ("a\0b", {}, "not a text file"),
    ],
)
def test_a_game_that_cannot_be_trusted_is_refused(
    pgn: Pgn, text: str, options: dict[str, int], message: str
) -> None:
    with pytest.raises(InvalidPositionError, match=message):
        read_position(pgn(text), game=options.get("game"), ply=options.get("ply"))


def test_what_precedes_the_fault_of_a_game_can_still_be_asked_for(pgn: Pgn) -> None:
    given = read_position(pgn(BROKEN), ply=2)
    assert len(given.board.move_stack) == 2
    assert "breaks off" in given.notes[0]
    with pytest.raises(InvalidPositionError, match="is for a PGN file"):
        read_position("startpos", ply=1)


def test_a_printed_fen_leads_back_to_its_record_also_if_the_capturing_pawn_is_pinned(tmp_path: Path) -> None:
    board = chess.Board("8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1")
    path = tmp_path / "a.graph"
    with Graph.open(path, evaluator="uniform") as graph:
        analyze(graph, board, Limits(visits=100))
    board.push_san("e4")
    assert key_of(chess.Board(fen_of(board))) == key_of(board) != key_of(chess.Board(board.fen()))
    node = present(show(path, board))
    assert show(path, chess.Board(node.position)) == node
    with Store.open(path, read_only=True) as store:
        words = [row for batch in store.scan() for row in batch.words]
        for row, fen in zip(words, fens(np.array(words)), strict=True):
            assert f"{key_of(chess.Board(fen)):016x}" == f"{key_of(unpack(row.tolist())):016x}"


# ------------------------------------------------------------------ PGN: nothing is passed over in silence
def games(text: str, *, variations: bool = False) -> list[ReadGame]:
    return [read_game(game, variations=variations) for game in cut_games(io.StringIO(text, None))]


def line_of(game: ReadGame) -> str:
    board, words = (game.start or chess.Board()).copy(), []
    for move in game.moves:
        words.append(board.san(move))
        board.push(move)
    return " ".join(words)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ('[Event "A"]\n\n1. e4 e5 2. Nf3 *\n', ["e4 e5 Nf3"]),
        ("1.e4 e5 2.Nf3 1-0 1.d4 0-1", ["e4 e5 Nf3", "d4"]),
        ("1. e4 (1. d4 (1. c4 (1. Nf3))) (1. b3) e5 *", ["e4 e5"]),
        ("1. e4 {a } e5 {\n} Nf3 *", ["e4 e5 Nf3"]),
        ("1. e4 {; no ( line ) comment } e5 ; but { this is (one\n2. Nf3 *", ["e4 e5 Nf3"]),
        ("1. e4 {(} e5 {)} *", ["e4 e5"]),
        ('% escaped [Event "A"] d4\n1. e4\n% d4\ne5 *', ["e4 e5"]),
        ("1. e4!? $1 e5?? $139 2.Nf3$5 *", ["e4 e5 Nf3"]),
        ("1. e4 e5 2. Nf3 Nc6 3. Bc4 Bc5 4. 0-0 Nf6 *", ["e4 e5 Nf3 Nc6 Bc4 Bc5 O-O Nf6"]),
        ('[Event "A"]\r\n\r\n1. e4\r\ne5 *\r\n', ["e4 e5"]),
        ('[Event "A"]\n1. e4 *\n[Event "B"]\n1. d4 *\n', ["e4", "d4"]),
        ('[Event "A"]\n\n1. e4 e5\n\n[Event "B"]\n\n1. d4 *\n', ["e4 e5", "d4"]),
        ('1. h3\n[Event "B"]\nNc6 2. Na3 *\n', ["h3 Nc6 Na3"]),
        ('[Event "A"]\n\n[White "B"]\n\n1. e4 *\n', ["e4"]),
        ('[Event "A"]\n[Result "*"]\n\n[Event "B"]\n[Result "*"]\n', ["", ""]),
        ("\ufeff1. e4 *", ["e4"]),
        ('1. e4\n\ufeff[Event "B"]\n\n1. d4 *\n\n\ufeff1. c4', ["e4", "d4", "c4"]),
        ("1. e4{comment}e5(1... c5)2. Nf3*", ["e4 e5 Nf3"]),
        ("1. e4 e6 2. e5 d5 3. exd6ep cxd6 4. Nb1-c3+ Ng8f6# *", ["e4 e6 e5 d5 exd6 cxd6 Nc3 Nf6"]),
        ("1. e4 e5\n\n2. Nf3 Nc6\n\n{a comment}\n\n3. Bb5 1-0\n\n1. d4 d5\n", ["e4 e5 Nf3 Nc6 Bb5", "d4 d5"]),
        ("1. e4\n\ne5 2. Nf3 *", ["e4 e5 Nf3"]),
        ("1. e4 e5\n\n1. d4 d5\n", ["e4 e5", "d4 d5"]),
        ("1. e4 e5\n)\n2. Nf3 *", ["e4 e5 Nf3"]),
        ("1. e4 e5 1-0 {behind it}\n{and this}\n\n1. d4 *", ["e4 e5", "d4"]),
        ("1. e4 e5 resigns\n\nsome prose\n\n1. d4 *", ["e4 e5", "d4"]),
        ('[Event "A"]\n\n\n\n1. e4 *\n', ["e4"]),
        ("1. Pe4 e5. 2. Nf3, *", ["e4 e5 Nf3"]),
        ("", []),
        ("\n \n%\n", []),
        ("* 1-0 *", []),
        ("just some prose.\n", []),
    ],
)
def test_games_are_taken_apart(text: str, lines: list[str]) -> None:
    found = games(text)
    assert [line_of(game) for game in found] == lines
    assert not any(game.error for game in found)


@pytest.mark.parametrize(
    ("text", "error", "line"),
    [
        ("1. e4\n{ it does not end\n\n e5 2. Nf3", "a comment that does not end", 2),
        ("1. e4\nNf9 *", "the word 'Nf9'", 2),
        ("1. e4 ed *", "the word 'ed'", 1),
        ("1. e4 o-o *", "the word 'o-o'", 1),
        ("1. e4 e5 2. Sf3 Sc6 *", "the word 'Sf3'", 1),
        ("1. e4 e5 2. \u2658f3 *", "the word '\u2658f3'", 1),
        ("1. e4 e5 2. N f3 *", "the word 'N'", 1),
        ("1. e4 e5 2. N\ufefff3 *", "the word 'N\\ufefff3'", 1),
        ("1. e4 e5 2. N\u200bf3 *", "the word 'N\\u200bf3'", 1),
        ('[FEN "4k3/8/8/8/8/8/8/R3K2R w KQ - 0 1"]\n\n1. O-O\u2013O *', "the word 'O-O\u2013O'", 3),
        *((f"1. e4 e5 2. Nf3 Nf6 3. Bc4 Bc5 4. {word} *", f"the word '{word}'", 1)
          for word in ("O\u2013O", "OO", "O\u2014O", "00", "0\u20130", "o-o", "\u041e-\u041e")),
        ('[FEN "8/8" x]\n\n1. e4 *', "FEN cannot be read", 1),
        ('[SetUp "1"]\n\n1. e4 *', "there is no FEN", 1),
        ("[1. e4 e5] 2. Nf3 *", "moves in a line of tags", 1),
        ('[Event "x" 1. e4 e5 *', "moves in a line of tags", 1),
        ('[Event "x"] 1. e4 e5 *', "moves in a line of tags", 1),
        ("1. e4 e5 2. Ke3 *", "Ke3 is illegal", 1),
        ("1.\u00a0e4\u200b e5\u2003 1\u20260-0", "0-0 is illegal", 1),
    ],
)  # fmt: skip
def test_what_could_be_a_move_costs_its_game_with_its_line(text: str, error: str, line: int) -> None:
    *good, bad = games('[Event "sound"]\n\n1. d4 *\n\n' + text)
    assert [line_of(game) for game in good] == ["d4"]
    assert error in bad.error
    assert bad.error_line == line + 4
    assert games(text + '\n\n[Event "sound"]\n\n1. d4 d5 *\n')[-1].error == ""


def test_what_stands_open_costs_no_other_game() -> None:
    text = '[Event "A"]\n\n1. e4 {open e5\n\n[Event "B"]\n\n1. d4 (1. c4\n\n[Event "C"]\n\n1. c4 *\n'
    found = games(text)
    assert [game.headers["Event"] for game in found] == ["A", "B", "C"]
    assert [bool(game.error) for game in found] == [True, False, False]
    assert found[1].remarks == [(7, "a variation that does not end")]
    assert line_of(found[2]) == "c4"


@pytest.mark.parametrize(
    ("line", "headers", "remarks"),
    [
        ('[White "The \\"Rock\\""] [Black "B"]', {"White": 'The "Rock"', "Black": "B"}, 0),
        ('[White "a "big" one"]', {"White": 'a "big" one'}, 0),
        ('  [ White  "A" ]  ', {"White": "A"}, 0),
        ('[ECO"C50"]', {"ECO": "C50"}, 1),
        ('[ECO "C50"] ; seen', {"ECO": "C50"}, 1),
        ('[ECO "C50"] {seen}', {"ECO": "C50"}, 1),
        ('[White Elo "2000"]', {}, 1),
        ('[Gr\u00f6\u00dfe "2"]', {}, 1),
        ("[Event London 3]", {}, 1),
        ('[Event "London]', {}, 1),
        ("[ECO C50]", {}, 1),
        ("[diagram]", {}, 1),
        ("; seen", {}, 1),
        ('[White "A"]\n[White "B"]', {"White": "B"}, 1),
    ],
)
def test_an_unreadable_tag_is_named_and_costs_no_game(
    line: str, headers: dict[str, str], remarks: int
) -> None:
    for end in ("\n\n", "\n"):
        [game] = games(f'{line}\n[Result "1-0"]{end}1. e4 e5 1-0\n')
        assert game.headers == headers | {"Result": "1-0"}
        assert ["a comment before" in text for _, text in game.remarks] == remarks * [line.startswith(";")]
        assert (game.error, line_of(game)) == ("", "e4 e5")


@pytest.mark.parametrize(
    "text", ['[Eventf "A"]\n[SetUp "1"]\n', '[Event "A"]\n[FEN "8/8\n', "[F", "1-0\n[SetUp"]
)
def test_tags_without_moves_cost_no_later_game(text: str) -> None:
    *_, good = games(f'{text}\n\n[Event "Good"]\n\n1. d4 d5 1-0\n')
    assert (good.error, good.headers["Event"], line_of(good)) == ("", "Good", "d4 d5")


@pytest.mark.parametrize("null", ["--", "Z0", "0000", "@@@@"])
def test_every_null_move_ends_the_mainline_and_a_variation(null: str) -> None:
    [game] = games(f"1. e4 e5\n2. {null} d5 3. c4 *")
    assert (line_of(game), game.null_line, game.error) == ("e4 e5", 2, "")
    assert game.cuts == [(2, f"the line ends before {null!r}: a null move; 2 more with it")]
    [game] = games(f"1. e4 (1. d4 {null} 2. c4) e5 *", variations=True)
    assert (line_of(game), game.null_line, game.null_variations) == ("e4 e5", 0, 1)


def test_words_that_are_no_moves_are_listed_with_their_lines() -> None:
    [game] = games("1. e4 resigns e5\n[diagram]\n2. Nf3+- = 1-0")
    assert game.strays == [(1, "resigns"), (2, "[diagram]"), (3, "+-"), (3, "=")]
    assert (line_of(game), game.result) == ("e4 e5 Nf3", "1-0")


def test_brackets_that_open_or_close_nothing_are_named() -> None:
    [game] = games("(1. e4 )\n} e5 ((1... c5)) *")
    assert line_of(game) == "e4 e5"
    assert game.remarks == [(1, "a ( that begins no variation"), (1, "a ) that closes nothing"),
                            (2, "a } that closes nothing")]  # fmt: skip


def test_a_bad_move_ends_its_variation_only() -> None:
    [game] = games("1. e4 (1. Ke3 e5) e5 (1... c5 2. Nf9) 2. Nf3 *", variations=True)
    assert (game.error, line_of(game)) == ("", "e4 e5 Nf3")
    assert [line for line, _ in game.variation_faults] == [1, 1]
    assert len(game.cuts) == 2


def test_a_comment_behind_the_result_and_one_in_an_empty_variation_are_kept() -> None:
    [game] = games("1. e4 e5 ({x}) 2. Nf3 ; y } z\n1-0 {after}\n", variations=True)
    assert [node.comment for node in game.tree.mainline()] == ["", "x", "y ) z after"]
    assert game.remarks == [(1, "a comment has a }, which is kept as )")]


def test_text_that_is_not_utf_8_is_windows_1252() -> None:
    assert decoded("M\u00fcller \u2013".encode()) == decoded("M\u00fcller \u2013".encode("cp1252"))


def test_games_that_python_chess_reads_are_read_the_same() -> None:
    """A short run; `python -m tests.fuzz.pgn_games` is the long one."""
    counts, wrong = run(600, seed=1)
    assert not wrong
    assert counts["read the same"] > 200


@pytest.mark.parametrize(
    ("file", "plies"),
    [("nbsp/nbsp", [3]), ("oneline/oneline", [0, 2]), ("bracket_line/diagram", [3]),
     ("tags/tags", [2, 2, 2, 2]), ("null_words/null", [6]), ("castling_words/castle", [6])],
)  # fmt: skip
def test_small_faults_are_read_as_stated(file: str, plies: list[int]) -> None:
    path: Path = shared_data(f"faults/{file}.pgn")
    assert [len(game.moves) for game in games(path.read_text("utf-8"))] == plies


# ------------------------------------------------------------------ FENs of other programs
FIELDS = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq"


@pytest.mark.parametrize("rest", ["-; ce 20;", "-;ce 20;", "-;", "- ce 20;"])
def test_a_semicolon_may_end_the_fields_of_an_epd_line(rest: str) -> None:
    *_, board, operations, faults = read_epd(f"{FIELDS} {rest}")
    assert (board, faults) == (chess.Board(), [])
    assert operations == ({"ce": 20} if "ce" in rest else {})


@pytest.mark.parametrize("text", [f"{FIELDS} - 0 1 moves e2e4 e7e5", f"{FIELDS} - moves e2e4 e7e5; ce 20;"])
def test_moves_behind_a_fen_are_played_wherever_it_stands(text: str) -> None:
    after = after_line("e4 e5")
    assert board_from_fen(text) == after
    ((_, found),) = read_fen_lines([text])
    assert found == after
    assert read_position(text).board == after
    with pytest.raises(InvalidPositionError, match="move 3"):
        board_from_fen(f"{FIELDS} - moves e2e4 e7e6 e7e5")


def test_a_byte_order_mark_before_toml_is_passed_over() -> None:
    assert toml_tables("\ufeff[analyze]\nvisits = 7\n") == {"analyze": {"visits": 7}}


# ------------------------------------------------------------------ names of openings
def test_the_table_is_what_its_tool_writes() -> None:
    lines = TABLE.read_text("utf-8").splitlines()
    assert lines == list(written(lines))


def test_every_code_has_a_line() -> None:
    rows = [line for line in TABLE.read_text("utf-8").splitlines() if line[0] != "#"]
    assert {row.split()[1] for row in rows} == {f"{a}{n:02}" for a in "ABCDE" for n in range(100)}
    assert max(len(row.partition(" | ")[2].split()) for row in rows) < DEEPEST


def test_a_transposition_has_the_same_name() -> None:
    for moves in (
        "d4 Nf6 c4 g6 Nc3 Bg7 e4 d6 Nf3",
        "c4 g6 e4 Bg7 d4 d6 Nc3 Nf6 Nf3",
        "Nf3 Nf6 c4 g6 Nc3 Bg7 e4 d6 d4",
    ):
        assert str(opening_at(after_line(moves))).startswith("E90 King's Indian Defense")


# ------------------------------------------------------------------ clocks
@pytest.mark.parametrize(
    ("rest", "clocks"),
    [
        ('id "a hmvc 12;";', (0, 1)),
        ('id "a hmvc 12; fmvn 7;"; hmvc 3;', (3, 1)),
        ('c0 "fmvn 9;"; fmvn 8;', (0, 8)),
        ('c0 "a"; hmvc 5; id "b";', (5, 1)),
        ('id "a \\" hmvc 12;"; hmvc 3;', (3, 1)),
        ('id "a; hmvc 12;', (12, 1)),
        ('id "a hmvc 12;', (0, 1)),
    ],
)
def test_a_clock_in_quotes_is_text(rest: str, clocks: tuple[int, int]) -> None:
    board = board_from_fen(f"4k3/8/8/8/8/8/8/4K3 w - - {rest}")
    assert (board.halfmove_clock, board.fullmove_number) == clocks


# ------------------------------------------------------------------ scores: one growing function of Q
STEP = 0.01  # two Q so far apart never have the same centipawns
VALUES = st.floats(-1.0, 1.0)


@given(VALUES, VALUES)
def test_centipawns_are_in_the_order_of_q(a: float, b: float) -> None:
    least, most = sorted((a, b))
    assert cp_of(least) <= cp_of(most)
    assert cp_of(-least) == -cp_of(least)
    if most - least >= STEP:
        assert cp_of(least) < cp_of(most)


@given(VALUES, st.floats(0.0, 1.0), st.sampled_from([100, 1000]))
def test_rounded_chances_add_up_and_have_the_rounded_q(q: float, draw: float, whole: int) -> None:
    shares = wdl_from_q(q, draw)
    win, even, loss = rounded_shares(shares, whole)
    assert min(win, even, loss) >= 0
    assert (win + even + loss, win - loss) == (whole, round(whole * shares.q))
    assert rounded_shares(WDL(shares.loss, shares.draw, shares.win), whole) == (loss, even, win)
    assert max(abs(win - whole * shares.win), abs(loss - whole * shares.loss)) <= 1


@pytest.fixture(scope="module")
def certain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a file whose moves differ more in their draws than in Q, some without any chance to lose."""
    rng, board = random.Random(5), chess.Board()
    visits = {board.san(move): (rng.randint(1, 90), rng.uniform(-0.3, 0.6)) for move in legal_moves(board)}
    record = made_record(board, visits)
    shares = [rng.choice([0.0, 0.5, 0.9, 1.0]) * (1 - abs(edge.q)) for edge in record.edges]
    edges = [replace(edge, d=int(D_SCALE * d)) for edge, d in zip(record.edges, shares, strict=True)]
    path = tmp_path_factory.mktemp("certain") / "certain.graph"
    return filled(path, [replace(record, edges=tuple(edges))])


def check_order(rows: Iterable[tuple[float, float]]) -> int:
    """Asserts that (score, Q) pairs are in one order, either way; returns the number of pairs of rows."""
    pairs = list(combinations(rows, 2))
    for (score, q), (other_score, other_q) in pairs:
        assert (score - other_score) * (q - other_q) >= 0, ((score, q), (other_score, other_q))
    return len(pairs)


def test_no_two_moves_shown_contradict_each_other(certain: Path, cli: Cli) -> None:
    moves = cli("show", certain, "--json").json["moves"]
    assert check_order((move["cp"], move["q"]) for move in moves) == 190
    printed = cli("show", certain)
    row = re.compile(r" ([+-]?\d+\.\d\d) +(\d+) +(\d+) +(\d+) ")
    found = [row.search(line) for line in printed.out.splitlines()]
    shown = [(float(cells[1]), int(cells[2]) - int(cells[4])) for cells in found if cells]
    assert check_order(shown) >= 40


def test_uci_shows_scores_in_the_order_of_its_chances(certain: Path) -> None:
    options = {"GraphFile": str(certain), "MultiPV": "20", "UCI_ShowWDL": "true", "Evaluator": "uniform"}
    with Played(options) as game:
        lines = game.ready().ask("position startpos", "go nodes 1", until="bestmove")
    values = {}
    for line in lines:
        if chances := re.search(r" wdl (\d+) (\d+) (\d+) ", line):
            values[field_of(line, "multipv")] = field_of(line, "cp"), int(chances[1]) - int(chances[3])
    assert check_order(values.values()) == 190
