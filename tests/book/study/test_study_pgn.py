"""PGN into a study and out of it: the same text, with python-chess as the judge; reasons for the rest."""

from __future__ import annotations

import io
import random

import chess
import chess.pgn
import pytest

from graphsearch.book.study.pgn import StudyGame, read_games, rows_of, text_of

from ...conftest import shared_data

START = "4k3/8/8/8/8/8/4P3/R3K2R w KQ - 0 1"


def read(text: str) -> list[StudyGame]:
    return list(read_games(io.StringIO(text, None), "a.pgn"))


def written(game: StudyGame) -> str:
    return text_of(game.tree)


def judged(text: str) -> str:
    """Returns what python-chess writes of what it reads."""
    game = chess.pgn.read_game(io.StringIO(text))
    assert game is not None
    assert game.errors == []
    return game.accept(chess.pgn.StringExporter()) + "\n"


def random_game(rng: random.Random) -> str:
    """Returns a game with variations, comments and glyphs anywhere, as python-chess writes it."""
    game = chess.pgn.Game()
    if rng.random() < 0.3:
        game.setup(chess.Board(START))
    game.comment = rng.choice(("", "at the start [%cal Ge2e4]"))
    nodes: list[chess.pgn.GameNode] = [game]
    for _ in range(rng.randrange(1, 60)):
        node = rng.choice(nodes[-4:])
        moves = list(node.board().legal_moves)
        if not moves:
            continue
        child = node.add_variation(
            rng.choice(moves),
            comment=rng.choice(("", "", "<b>x</b> é\N{EN DASH}", "two\nlines", 'a "quote" and \\')),
            nags=rng.choice(([], [1], [3, 14])),
        )
        if node.variations[0] is not child:
            child.starting_comment = rng.choice(("", "instead"))
        nodes.append(child)
    return game.accept(chess.pgn.StringExporter()) + "\n"


def test_a_game_comes_out_as_python_chess_writes_it() -> None:
    for seed in range(10):
        text = random_game(random.Random(seed))
        (game,) = read(text)
        assert game.left_out == []
        assert written(game) == text == judged(text)


@pytest.mark.parametrize(
    ("text", "kept", "reasons"),
    [
        ("1. e4 Nx9 2. e5 d4 *", "1. e4 *", ("not a move", "ends before 'Nx9'", "2 more with it")),
        ("1. e4 -- 2. d4 *", "1. e4 *", ("a null move; 1 more with it",)),
        ("1. e4 (1. d4 -- 2. c4) 1... e5 *", "1. e4 ( 1. d4 ) 1... e5 *", ("a null move; 1 more",)),
        ("1. e4 (1. Ke8 e5) 1... e5 *", "1. e4 e5 *", ("illegal san: 'Ke8'",)),
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
    assert written(game).rstrip().rpartition("\n\n")[2].replace("\n", " ") == kept
    told = " | ".join(game.left_out)
    assert all(reason in told for reason in reasons), told
    assert all(line.startswith("a.pgn, game 1, line ") for line in game.left_out)


def test_variations_may_be_nested_deeper_than_python_recurses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphsearch.position.pgn.DEEPEST", 1300)
    moves = [chess.Board().san(move) for move in chess.Board().legal_moves]
    depth, most = 1200, 1300
    text = " ( ".join(moves[k % 20] for k in range(depth)) + " )" * (depth - 1) + " *"
    (game,) = read(text)
    assert (len(list(rows_of(game.tree))), game.left_out) == (depth, [])
    assert judged(written(game)) == written(game)
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
    assert next(rows_of(found.tree)).san == "O-O"
    assert written(found) == text == judged(text)


def test_a_study_loses_nothing_in_silence() -> None:
    text = shared_data("faults/study_loss/study.pgn").read_text("utf-8")
    games = read(text)
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
    assert (chapter.tree.board().fen(), len(list(rows_of(chapter.tree))), chapter.left_out) == (
        "8/8/8/4k3/8/8/4P3/4K3 w - - 0 1",
        5,
        [],
    )
    assert (len(list(rows_of(draw.tree))), draw.tree.end().comment) == (5, "only comment")
    assert "passed over '='" in draw.left_out[0]


# ------------------------------------------------------------------ rows of moves
