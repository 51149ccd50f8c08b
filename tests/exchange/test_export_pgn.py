"""PGN trees: python-chess reads the same graph back, and transpositions lead where they say."""

from __future__ import annotations

import inspect
import io
import random
import re
import shutil
import sys
from pathlib import Path

import chess
import chess.pgn
import pytest

from graphsearch.exchange.exports import export
from graphsearch.exchange.output import COLUMNS
from graphsearch.exchange.selection import Selection
from graphsearch.position.board import board_of, key_of, legal_moves
from graphsearch.position.values import cp_of
from graphsearch.store.ranking import node_mean, ranking

from ..conftest import Cli
from ..store.records import filled
from ..support.positions import after_line
from .exported import (
    CHESS960,
    ENDGAME,
    LINES,
    Known,
    after,
    edges,
    execute,
    known_below,
    made_record,
    searched,
    uniform_graph,
)

REFERENCE = re.compile(
    r"(transposes to|repeats) (?:game (\d+),? ?)?(the first position|)((?:\d+\.+|\S+| )*)$"
)
Tree = dict[int, chess.pgn.GameNode]  # the node that expands each position, by key


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return searched(tmp_path_factory.mktemp("graph") / "lines.graph", chess.STARTING_FEN, *LINES, visits=60)


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return uniform_graph(tmp_path_factory.mktemp("graph") / "wide.graph", 600)


@pytest.fixture(scope="module")
def cycles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return searched(tmp_path_factory.mktemp("graph") / "cycles.graph", ENDGAME, visits=600)


def read_games(text: str) -> list[chess.pgn.Game]:
    """Returns the games of a PGN text, each read without an error."""
    handle = io.StringIO(text)
    games = []
    while (game := chess.pgn.read_game(handle)) is not None:
        assert game.errors == []
        games.append(game)
    return games


def exported(
    path: Path, out: Path, selection: Selection | None = None, *, comments: bool = True
) -> list[chess.pgn.Game]:
    report = export("pgn", path, out, selection or Selection(roots=(chess.Board(),)), comments=comments)
    text = out.read_text()
    assert comments or max(len(line) for line in text.splitlines()) <= COLUMNS
    games = read_games(text)
    assert report.games == len(games)
    return games


def nodes_of(game: chess.pgn.Game) -> list[chess.pgn.GameNode]:
    found: list[chess.pgn.GameNode] = []
    stack: list[chess.pgn.GameNode] = [game]
    while stack:
        node = stack.pop()
        found.append(node)
        stack += node.variations
    return found


def tree_of(games: list[chess.pgn.Game]) -> Tree:
    """Returns who expands each position; none may be expanded twice."""
    tree: Tree = {}
    for game in games:
        for node in nodes_of(game):
            if node.variations:
                assert key_of(node.board()) not in tree
                tree[key_of(node.board())] = node
    return tree


def moves_in(tree: Tree) -> dict[int, set[str]]:
    return {key: {child.move.uci() for child in node.variations if child.move} for key, node in tree.items()}


def moves_known(known: Known) -> dict[int, set[str]]:
    found = {key: {move.uci() for move, _ in edges(*pair)} for key, pair in known.items()}
    return {key: moves for key, moves in found.items() if moves}


@pytest.mark.parametrize("name", ["lines", "cycles"])
def test_the_tree_has_every_move_of_the_graph_and_each_position_once(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    path = request.getfixturevalue(name)
    fen = ENDGAME if name == "cycles" else chess.STARTING_FEN
    games = exported(path, tmp_path / "out.pgn", Selection(roots=(chess.Board(fen),)))
    assert moves_in(tree_of(games)) == moves_known(known_below(path, fen))


def test_roots_below_another_root_have_no_tree_of_their_own_unless_they_are_asked_for(
    lines: Path, tmp_path: Path
) -> None:
    start = known_below(lines)[key_of(chess.Board())]
    best = max(edges(*start), key=lambda pair: pair[1].n)[0]
    path = Path(shutil.copy(lines, tmp_path / "best.graph"))
    for board in (start[0], after(start[0], best)):
        execute(
            path,
            "INSERT OR REPLACE INTO root (key, position, visits, last_searched) VALUES (?, ?, 9999, '')",
            [(f"{key_of(board):016x}", board.fen())],
        )
    games = exported(path, tmp_path / "one.pgn", Selection())
    assert [game.headers.get("FEN") for game in games].count(None) == 1
    assert after(start[0], best).fen() not in [game.headers.get("FEN") for game in games]
    assert moves_in(tree_of(games)).items() >= moves_known(known_below(path)).items()
    roots = (chess.Board(), chess.Board("rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq - 0 1"))
    games = exported(lines, tmp_path / "two.pgn", Selection(roots=roots))
    assert [game.headers.get("FEN") for game in games] == [None, roots[1].fen()]
    assert moves_in(tree_of(games)) == moves_known(known_below(lines))
    reference = next(child for child in games[0].variations if child.san() == "e4")
    assert reference.comment.endswith("transposes to game 2")
    assert not reference.variations


@pytest.mark.parametrize("name", ["wide", "cycles"])
def test_a_transposition_names_the_line_that_expands_it(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    root = chess.Board(ENDGAME if name == "cycles" else chess.STARTING_FEN)
    games = exported(request.getfixturevalue(name), tmp_path / "out.pgn", Selection(roots=(root,)))
    assert len(games) == 1
    tree = tree_of(games)
    found = 0
    for node in nodes_of(games[0]):
        comment = " ".join(node.comment.split())
        reference = REFERENCE.search(comment)
        expanded_elsewhere = not node.variations and key_of(node.board()) in tree
        assert bool(reference) == expanded_elsewhere, comment
        if not reference:
            continue
        found += 1
        target: chess.pgn.GameNode = games[0]
        for word in reference[4].split():
            if not word[0].isdigit():
                target = target.variation(target.board().parse_san(word))
        assert target is tree[key_of(node.board())]
        assert (reference[1] == "repeats") == (target in ancestors(node))
    assert found > 10


def ancestors(node: chess.pgn.GameNode) -> list[chess.pgn.GameNode]:
    found = []
    while node.parent is not None:
        node = node.parent
        found.append(node)
    return found


def test_comments_have_the_numbers_of_the_records(lines: Path, tmp_path: Path) -> None:
    games = exported(lines, tmp_path / "out.pgn")
    known = known_below(lines)
    root = known[key_of(chess.Board())][1]
    assert games[0].comment == f"N {root.visits} Q {node_mean(root)[0]:+.3f} for White"
    for key, node in tree_of(games).items():
        board, record = known[key]
        values = dict(edges(board, record))
        best = legal_moves(board)[record.order[ranking(record)[0]]]
        moves = [child.move for child in node.variations]
        assert moves[0] == best
        assert set(moves) == set(values)
        for child in node.variations:
            assert child.move is not None
            edge = values[child.move]
            assert f"N {edge.n} Q {edge.value:+.3f} P " in " ".join(child.comment.split())
            shown = child.eval()
            mate = any(after(child.board(), reply).is_checkmate() for reply in child.board().legal_moves)
            if child.board().is_checkmate():
                assert shown is None
            elif mate:
                assert shown is not None
                assert shown.white().mate() == (-1 if board.turn else 1)
            else:
                assert shown is not None
                assert shown.pov(board.turn).score() == cp_of(edge.value)


def test_moves_have_their_values_and_notes_and_no_other_words(lines: Path, tmp_path: Path, cli: Cli) -> None:
    path = Path(shutil.copy(lines, tmp_path / "noted.graph"))
    e4 = after(chess.Board(), chess.Move.from_uci("e2e4"))
    for board, text in ((chess.Board(), "where it begins"), (e4, "my move\nagainst all")):
        note = (f"{key_of(board):016x}", board.fen(), text)
        execute(path, "INSERT INTO note VALUES (?, ?, ?, 1, '2026-01-01')", [note])
    (game,) = exported(path, tmp_path / "out.pgn", comments=False)
    assert game.comment == "where it begins"
    for node in nodes_of(game)[1:]:
        comment = re.sub(r"\[%eval \S+\]", "", node.comment).strip()
        assert comment == ("my move against all" if key_of(node.board()) == key_of(e4) else "")
    said = cli("export", path, "-o", tmp_path / "x.csv", "--comments").ends(2)
    assert "--comments does not apply to csv" in said.err


def test_the_tags_of_the_game_before_the_root_stay(lines: Path, tmp_path: Path, cli: Cli) -> None:
    tags = '[Event "Cup"]\n[Site "Oslo"]\n[Date "2024.05.01"]\n[White "A"]\n[Black "B"]\n'
    (tmp_path / "game.pgn").write_text(f'{tags}[Result "1-0"]\n\n1. e4 e5 2. Nf3 1-0\n')
    cli("export", "--store", lines, tmp_path / "game.pgn", "--ply", 2, "-o", tmp_path / "out.pgn").ends(0)
    (game,) = read_games((tmp_path / "out.pgn").read_text())
    kept = [game.headers[name] for name in ("Event", "Site", "Date", "White", "Black", "Result")]
    assert kept == ["Cup", "Oslo", "2024.05.01", "A", "B", "1-0"]
    assert [move.uci() for move in game.mainline_moves()][:2] == ["e2e4", "e7e5"]
    assert game.headers["Annotator"] == "graphsearch"


def test_a_move_that_loses_clearly_is_marked_if_it_was_visited_enough(tmp_path: Path) -> None:
    visits = {
        "e4": (90, 0.2),
        "d4": (20, 0.05),
        "c4": (20, 0.0),
        "b4": (20, -0.1),
        "a4": (9, -0.9),
        "f3": (10, 0.11),
    }
    path = filled(tmp_path / "bad.graph", [made_record(chess.Board(), visits)])
    (game,) = exported(path, tmp_path / "out.pgn")
    marks = {child.san(): child.nags for child in game.variations}
    assert marks == {"e4": set(), "d4": {6}, "c4": {2}, "b4": {4}, "a4": set(), "f3": set()}


def test_a_game_names_the_opening_of_its_root(tmp_path: Path) -> None:
    board = after_line("e4 c5")
    path = filled(tmp_path / "a.graph", [made_record(board, {"Nf3": (9, 0.1)})])
    (game,) = exported(path, tmp_path / "out.pgn", Selection(roots=(board,)))
    assert (game.headers["ECO"], game.headers["Opening"]) == ("B20", "Sicilian Defense")


def test_a_repertoire_has_one_move_of_its_side_against_all_replies(lines: Path, tmp_path: Path) -> None:
    known = known_below(lines)
    for side, turn in (("white", chess.WHITE), ("black", chess.BLACK)):
        games = exported(lines, tmp_path / "out.pgn", Selection(roots=(chess.Board(),), side=side))  # type: ignore[arg-type]
        for key, node in tree_of(games).items():
            moves = edges(*known[key])
            assert len(node.variations) == (1 if node.turn() == turn else len(moves))


def long_line(plies: int) -> tuple[list[chess.Board], list[chess.Move]]:
    """Returns positions and moves of one line, no two of them equal; pawns keep the clock below 76."""
    rng = random.Random(3)
    board = chess.Board("4k3/ppppp3/8/8/8/8/PPPPP3/4K3 w - - 0 1")
    found, played, seen = [board.copy(stack=False)], list[chess.Move](), {key_of(board)}
    while len(found) < plies:
        moves = [m for m in board.legal_moves if board.is_zeroing(m) == (board.halfmove_clock > 60)]
        rng.shuffle(moves)
        quiet = (m for m in moves if not board.is_capture(m) and not m.promotion and not board.gives_check(m))
        played.append(next(m for m in quiet if key_of(after(board, m)) not in seen))
        board = after(board, played[-1])
        seen.add(key_of(board))
        found.append(board)
    return found, played


def test_a_line_may_be_longer_than_pythons_stack(tmp_path: Path) -> None:
    boards, moves = long_line(400)
    records = [made_record(a, {a.san(m): (3, 0.0)}) for a, m in zip(boards[:-1], moves, strict=True)]
    path = filled(tmp_path / "long.graph", [*records, made_record(boards[-1], {})])
    usual = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack()) + 250)
    try:
        report = export("pgn", path, tmp_path / "out.pgn", Selection(roots=(boards[0],)))
    finally:
        sys.setrecursionlimit(usual)
    assert report.moves == 399
    (game,) = read_games((tmp_path / "out.pgn").read_text())
    assert [node.move for node in game.mainline()] == moves


def test_a_game_of_chess960_says_so_and_has_every_move(tmp_path: Path) -> None:
    path = searched(tmp_path / "some.graph", CHESS960, visits=200)
    games = exported(path, tmp_path / "out.pgn", Selection(roots=(board_of(CHESS960),)))
    assert [game.headers["Variant"] for game in games] == ["Chess960"]
    found = moves_in(tree_of(games))
    assert found == moves_known(known_below(path, CHESS960))
    assert "e1b1" in found[key_of(board_of(CHESS960))]  # castling
