"""The reading of PGN: cut into games, judged by `chess.pgn`, with nothing passed over in silence."""

from __future__ import annotations

import io
from pathlib import Path

import chess
import pytest

from graphsearch.base.limits import decoded
from graphsearch.position.pgn import ReadGame, cut_games, read_game

from ..conftest import shared_data
from ..fuzz.pgn_games import run


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
        ("1.\u00a0e4\u200b e5\u2003 1\u20260-0", ["e4 e5"]),
        ("1. Pe4 e5. 2. Nf3, *", ["e4 e5 Nf3"]),
        ("", []),
        ("\n \n%\n", []),
        ("* 1-0 *", []),
        ("just some prose.\n", []),
    ],
)
def test_games_are_taken_apart(text: str, lines: list[str]) -> None:
    if "\u20260-0" in text:  # castling is illegal there
        assert "illegal" in games(text)[0].error
        return
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
        ("1. e4 e5 2. Ke3 *", "illegal san", 1),
    ],
)  # fmt: skip
def test_what_could_be_a_move_costs_its_game_with_its_line(text: str, error: str, line: int) -> None:
    *good, bad = games('[Event "sound"]\n\n1. d4 *\n\n' + text)
    assert [line_of(game) for game in good] == ["d4"]
    assert error in bad.error
    assert bad.error_line == line + 4


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
        ('[White "A"]\n[White "B"]', {"White": "B"}, 1),
    ],
)
def test_an_unreadable_tag_is_named_and_costs_no_game(
    line: str, headers: dict[str, str], remarks: int
) -> None:
    for end in ("\n\n", "\n"):
        [game] = games(f'{line}\n[Result "1-0"]{end}1. e4 e5 1-0\n')
        assert game.headers == headers | {"Result": "1-0"}
        assert len(game.remarks) == remarks
        assert (game.error, line_of(game)) == ("", "e4 e5")


@pytest.mark.parametrize(
    "text", ['[Eventf "A"]\n[SetUp "1"]\n', '[Event "A"]\n[FEN "8/8\n', "[F", "1-0\n[SetUp"]
)
def test_tags_without_moves_cost_no_later_game(text: str) -> None:
    *_, good = games(f'{text}\n\n[Event "Good"]\n\n1. d4 d5 1-0\n')
    assert (good.error, good.headers["Event"], line_of(good)) == ("", "Good", "d4 d5")


def test_a_tag_that_does_not_end_costs_its_game_if_it_has_moves() -> None:
    for text, error in (('[Event "x" 1. e4 e5 *', "moves in a line of tags"), ('[Event "London', "")):
        game, *_ = games(f"{text}\n\n1. d4 *\n")
        assert error in game.error


def test_a_line_with_a_tag_and_moves_costs_only_itself() -> None:
    bad, good = games('[Event "x"] 1. e4 e5 *\n\n[Event "Good"]\n[Result "1-0"]\n\n1. d4 d5 1-0\n')
    assert (bad.error_line, "moves in a line of tags" in bad.error) == (1, True)
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
    comments = [node.comment for node in game.tree.mainline()]
    assert comments == ["", "x", "y ) z after"]
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
