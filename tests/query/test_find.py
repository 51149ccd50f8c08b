"""Finding, ways in, moves taken back and differences, against plain loops over all records."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import chess
import pytest

from graphsearch.position.board import board_of, key_of, key_of_text, key_text_of_words, pack, unpack
from graphsearch.position.values import cp_of
from graphsearch.query.diff import BEST, BOUNDS, OTHER_MOVE, WHATS, N, Q, diff
from graphsearch.query.find import Filters, find, read_pieces
from graphsearch.query.routes import parents, predecessors
from graphsearch.query.source import after
from graphsearch.store.ranking import best_move, has_best_move, node_mean
from graphsearch.store.record import NodeRecord, identities

from ..graph.sweeps.test_refresh import Records, records_of
from ..store.records import STARTS, filled, identity, random_records
from ..store.test_union import version
from ..support.graphs import ENDGAME, searched
from .handmade import ways_in

WON, NOT_LOST = 2 << 2 | 2 << 4, 1 << 2 | 2 << 4  # flags: lower and upper bound


@pytest.fixture(scope="module")
def any_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of random records: all kinds of positions, numbers and bounds."""
    records = [
        replace(record, flags=WON if k % 10 == 0 else NOT_LOST) if record.codes and k % 5 == 0 else record
        for k, record in enumerate(random_records(71, 300))
    ]
    return filled(tmp_path_factory.mktemp("random") / "random.graph", records, 3)


@pytest.fixture(scope="module")
def known(any_file: Path) -> Records:
    return records_of(any_file)


Passes = Callable[[chess.Board, NodeRecord], bool]


def men(board: chess.Board, letter: str) -> int:
    piece = chess.Piece.from_symbol(letter)
    return len(board.pieces(piece.piece_type, piece.color))


def best_of(record: NodeRecord) -> str | None:
    move = best_move(record, unpack(record.words)) if has_best_move(record) else None
    return move.uci() if move else None


@pytest.mark.parametrize(
    ("filters", "passes"),
    [
        (Filters(), lambda b, r: True),
        (Filters(min_n=2), lambda b, r: r.visits >= 2),
        (Filters(min_n=2, max_n=5_000), lambda b, r: 2 <= r.visits <= 5_000),
        (Filters(min_q=-0.2, max_q=0.0), lambda b, r: -0.2 <= node_mean(r)[0] <= 0.0),
        (Filters(side="w"), lambda b, r: b.turn == chess.WHITE),
        (Filters(side="b", max_q=-0.5), lambda b, r: b.turn == chess.BLACK and node_mean(r)[0] <= -0.5),
        (Filters(bounds="proven"), lambda b, r: r.bounds[0] == r.bounds[1]),
        (Filters(bounds="draw"), lambda b, r: r.bounds == (0, 0)),
        (Filters(bounds="win"), lambda b, r: r.bounds == (1, 1)),
        (Filters(pieces=read_pieces("P<=6, q=1")), lambda b, r: men(b, "P") <= 6 and men(b, "q") == 1),
        (
            Filters(pieces=read_pieces("men>20,N!=2")),
            lambda b, r: len(b.piece_map()) > 20 and men(b, "N") != 2,
        ),
        (Filters(pieces=read_pieces("Kk")), lambda b, r: len(b.piece_map()) == 2),
    ],
)
def test_what_is_found_is_what_a_loop_over_records_finds(
    any_file: Path, known: Records, filters: Filters, passes: Passes
) -> None:
    found = {key_of_text(row.key): row for row in find(any_file, filters)}
    assert sum(1 for _ in find(any_file, filters)) == len(found)
    assert found.keys() == {key for key, (board, record) in known.items() if passes(board, record)}
    for key, row in found.items():
        record, worth = known[key][1], row.worth
        assert key_of(board_of(row.position)) == key
        assert (worth.n, worth.q, worth.bounds) == (record.visits, node_mean(record)[0], record.bounds)
        assert worth.best_move == best_of(record)


@pytest.mark.parametrize("filters", [Filters(), Filters(max_q=0.0)])
def test_a_limit_takes_the_most_visited_positions(any_file: Path, filters: Filters) -> None:
    everything = list(find(any_file, filters))
    by_visits = sorted(everything, key=lambda row: -row.worth.n)  # equal ones stay in the order of the file
    for limit in (1, 3, 250, len(everything) + 1):
        assert list(find(any_file, filters, limit=limit)) == by_visits[:limit]


def test_what_was_found_before_a_fault_is_yielded(any_file: Path) -> None:
    def stop(*_: int) -> None:
        raise KeyError

    rows = find(any_file, Filters(), limit=3, on_progress=stop)
    assert len([next(rows) for _ in range(3)]) == 3
    with pytest.raises(KeyError):
        next(rows)


# ------------------------------------------------------------------ ways in
def test_every_visited_edge_of_a_file_is_found_from_the_position_behind_it(tmp_path: Path) -> None:
    cyclic = searched(tmp_path / "cyclic.graph", ENDGAME, "", "Ra6+", visits=400)  # many lines meet
    records = records_of(cyclic)
    ways = ways_in(records.values())
    for key in sorted(ways.keys() & records.keys())[::23]:
        board = records[key][0]
        steps = [one.step for one in parents(cyclic, board).parents]
        found = {(key_of(step.board), step.move.uci()) for step in steps if step.edge.n}
        assert found == ways[key], board.fen()


# ------------------------------------------------------------------ moves taken back
def place_of(board: chess.Board) -> tuple[int, ...]:
    """Returns what tells positions apart."""
    return tuple(identities(pack(board).reshape(1, -1))[0].tolist())


def is_among(before: chess.Board, move: chess.Move, found: list[tuple[chess.Board, chess.Move]]) -> bool:
    place = place_of(before)
    return any(its == move and place_of(board) == place for board, its in found)


@pytest.mark.parametrize(
    ("fen", "uci"),
    [  # each kind of move, with what it takes along
        ("r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 0 1", "e1g1"),
        ("r3k2r/8/8/8/8/8/8/R3K2R b KQkq - 0 1", "e8c8"),
        ("rnbqkbnr/ppp1p1pp/8/3pPp2/8/8/PPPP1PPP/RNBQKBNR w KQkq f6 0 3", "e5f6"),
        ("4k3/8/8/8/3pP3/8/8/4K3 b - e3 0 1", "e8e7"),
        ("1n2k3/P7/8/8/8/8/8/4K3 w - - 0 1", "a7b8n"),
        ("4k3/8/8/8/8/8/1p6/N3K3 b - - 0 1", "b2a1r"),
        ("4k3/8/8/8/8/8/4P3/4K3 w - - 70 160", "e2e4"),
        ("4k3/8/8/8/8/8/4P3/4K3 w - - 75 160", "e1d1"),
        ("4k3/8/8/8/8/8/4P3/4K3 w - - 83 160", "e1d1"),
        ("5k2/8/8/8/8/8/8/1R3K1R w HB - 0 1", "f1b1"),
        ("1r3kr1/8/8/8/8/8/8/R3K3 b Qgb - 0 1", "f8g8"),
        ("1r3kr1/8/8/8/8/8/8/RR2K3 w Bgb - 0 1", "b1b8"),
    ],
)
def test_every_kind_of_move_can_be_taken_back(fen: str, uci: str) -> None:
    before, move = board_of(fen), chess.Move.from_uci(uci)
    assert before.is_legal(move)
    assert is_among(before, move, list(predecessors(after(before, move))))


def random_moves(seed: int, games: int, plies: int) -> list[tuple[chess.Board, chess.Move]]:
    """Returns positions of random games with a move each; rare kinds of moves are preferred."""
    rng = random.Random(seed)
    found = []
    for number in range(games):
        board = board_of(STARTS[number % len(STARTS)])
        for _ in range(plies):
            moves = list(board.legal_moves)
            if not moves:
                break
            rare = [m for m in moves if board.is_en_passant(m) or board.is_castling(m) or m.promotion]
            move = rng.choice(rare if rare and rng.random() < 0.5 else moves)
            if rare or rng.random() < 0.15:
                found.append((board.copy(stack=False), move))
            board.push(move)
    return found


def test_what_is_taken_back_is_legal_leads_here_and_comes_once() -> None:
    for before, move in random_moves(3, 6, 40)[::31]:
        board = after(before, move)
        found = list(predecessors(board))
        assert is_among(before, move, found)
        for parent, its in found:
            assert parent.is_valid()
            assert parent.is_legal(its)
            assert key_of(after(parent, its)) == key_of(board), (parent.fen(), its)
        ways = [(place_of(parent), its) for parent, its in found]
        assert len(ways) == len(set(ways))


def test_above_75_the_clock_tells_what_came_before() -> None:
    quiet = chess.Board("4k3/8/8/8/8/8/4P3/3K4 b - - 84 160")
    assert {board.halfmove_clock for board, _ in predecessors(quiet)} == {83}
    just_above = chess.Board("4k3/8/8/8/8/8/4P3/3K4 b - - 76 160")
    assert {board.halfmove_clock for board, _ in predecessors(just_above)} == {0}


# ------------------------------------------------------------------ differences of two files
RNG = random.Random(9)


def other_version(record: NodeRecord) -> NodeRecord:
    """Returns other numbers of a position; without visits nothing is proven of it."""
    found = replace(version(record, RNG), evaluator=1, run=0)
    return found if found.edges else replace(found, flags=record.flags)


KNOWN = random_records(71, 260)
OLD = KNOWN[:200]
NEW = [*KNOWN[60:100], *(other_version(r) if r.codes else r for r in KNOWN[100:200]), *KNOWN[200:]]


def changes(old: NodeRecord, new: NodeRecord) -> dict[str, bool | None]:
    """Returns what changed; None where rounding decides."""
    gap = abs(cp_of(node_mean(old)[0]) - cp_of(node_mean(new)[0]))
    moves = best_of(old), best_of(new)
    return {
        BEST: None not in moves and moves[0] != moves[1],
        Q: None if abs(gap - 20) < 3 else gap >= 20,
        N: old.visits != new.visits,
        BOUNDS: old.bounds != new.bounds,
    }


def test_changes_are_counted_and_what_matters_most_is_listed_first(tmp_path: Path) -> None:
    files = filled(tmp_path / "a.graph", OLD, runs=2), filled(tmp_path / "b.graph", NEW, runs=3)
    found = diff(*files, top=1000)
    old, new = ({identity(r): r for r in records} for records in (OLD, NEW))
    shared = old.keys() & new.keys()
    assert (found.both, found.only_old, found.only_new) == (140, 60, 60)
    expected = {key: changes(old[key], new[key]) for key in shared}
    for what in (BEST, N, BOUNDS):
        assert found.counts[what] == sum(bool(each[what]) for each in expected.values())
    unsure = sum(each[Q] is None for each in expected.values())
    assert 0 <= found.counts[Q] - sum(each[Q] is True for each in expected.values()) <= unsure
    rows = {row.key: row for row in found.changes}
    by_key = {key_text_of_words(new[key].words): key for key in shared}
    for text, key in by_key.items():
        whats = {what for what in WHATS if expected[key][what]}
        row = rows.get(text)
        if row is None:
            assert whats <= {Q, N}
        else:
            assert {*row.what} - {Q} == whats - {Q}
            assert (row.old.n, row.new.n) == (old[key].visits, new[key].visits)
            assert (row.old.best_move, row.new.best_move) == (best_of(old[key]), best_of(new[key]))
            assert (row.old.bounds, row.new.bounds) == (old[key].bounds, new[key].bounds)
    weights = [
        min(row.old.n, row.new.n) * (abs(row.new.q - row.old.q) + OTHER_MOVE * (BEST in row.what))
        for row in found.changes
    ]
    assert weights == pytest.approx(sorted(weights, reverse=True))
    assert [row.worth.n for row in found.come] == sorted((r.visits for r in NEW[140:]), reverse=True)
    few = diff(*files, top=3)
    assert few.changes == found.changes[:3]
    assert few.gone == found.gone[:3]
    assert few.counts == found.counts
