"""The prover of mates: what it proves holds under all rules, and is the shortest where it says so."""

from __future__ import annotations

import pickle
import random
import threading
from itertools import pairwise
from pathlib import Path

import chess
import chess.syzygy
import pytest

from graphsearch.position.board import board_of as start_of
from graphsearch.position.board_kernel import PW
from graphsearch.position.values import MATE
from graphsearch.search.job import Control
from graphsearch.search.params import Limits
from graphsearch.solvers.mate.proof_kernel import ANY_LENGTH, MOST_PLIES
from graphsearch.solvers.mate.search import (
    SLICE,
    MateProgress,
    MateRefutedError,
    MateResult,
    MateSearch,
    Prover,
    check_mate,
    find_mate,
)
from graphsearch.store.entries import Entry, EntryTable
from graphsearch.store.transposition_kernel import PROOF
from tests.conftest import present, shared_data
from tests.support.plain import as_json, in_plain_python
from tests.support.positions import after_line, mates_within, placed

SMALL = 1 << 22  # bytes of a table that is enough here
KEY_TO_TWO = "kbK5/pp6/1P6/8/8/8/8/R7 w - - 0 1"  # Morphy: 1. Ra6
RETI = "rnb1kb1r/pp3ppp/2p5/4q3/4n3/3Q4/PPPB1PPP/2KR1BNR w kq - 0 9"


def mate_of(fen: str, **limits: int) -> MateResult:
    visits, moves = limits.get("visits", 50_000), limits.get("moves")
    return find_mate(start_of(fen), Limits(visits=visits), moves=moves, table_bytes=SMALL)


def assert_line_mates(result: MateResult) -> None:
    board = start_of(result.position)
    for move in result.pv:
        assert move in board.legal_moves
        board.push(move)
    assert board.is_checkmate()
    assert result.mate is not None
    assert len(result.pv) == (2 * result.mate - 1 if result.mate > 0 else -2 * result.mate)


@pytest.mark.parametrize(
    ("fen", "mate", "first"),
    [
        ("6k1/5ppp/8/8/8/8/5PPP/3R2K1 w - - 0 1", 1, "d1d8"),
        ("7k/8/6K1/8/8/8/8/R7 w - - 100 90", 1, "a1a8"),  # before a draw is claimed
        ("4R3/8/8/8/8/5k1P/7P/4K2R w K - 0 1", 1, "e1g1"),  # nothing but castling mates
        ("4R3/8/8/8/8/5k1P/7P/3K3R w H - 0 1", 1, "d1h1"),
        ("8/1P4Q1/k7/1R3K2/3N4/8/8/3q4 w - - 0 1", 1, "b7b8n"),  # nothing but a knight mates
        ("1r6/8/2k1K3/2Pp4/R2Pp3/8/8/1QRB4 w - d6 0 1", 1, "c5d6"),  # nothing but en passant mates
        ("8/5P1k/1K6/8/8/8/5B2/6R1 w - - 0 1", 2, "f7f8r"),  # a queen would stalemate
        (KEY_TO_TWO, 2, "a1a6"),
        (RETI, 3, "d3d8"),
    ],
)
def test_the_shortest_mate_and_its_first_move(fen: str, mate: int, first: str) -> None:
    result = mate_of(fen, visits=5000)
    assert (result.mate, result.shortest, result.excluded) == (mate, True, mate - 1)
    assert result.stop_reason == "proven"
    assert result.pv[0].uci() == first
    assert_line_mates(result)


@pytest.mark.parametrize(
    ("fen", "mate"),
    [
        ("7k/6Q1/6K1/8/8/8/8/8 b - - 0 1", 0),
        ("7k/5Q2/6K1/8/8/8/8/8 b - - 0 1", None),
        ("7k/8/6K1/8/8/8/8/6B1 b - - 0 1", None),
        (KEY_TO_TWO.replace("0 1", "150 90"), None),
        ("7k/8/6K1/8/8/8/8/8 w - - 0 1", None),
    ],
)
def test_a_game_that_is_over_is_not_searched(fen: str, mate: int | None) -> None:
    result = mate_of(fen)
    assert (result.mate, result.stop_reason, result.visits, result.pv) == (mate, "finished", 0, ())


# ---------------------------------------------------------------- the rules of draws
@pytest.mark.parametrize(
    ("clock", "mate"), [(0, 2), (97, 2), (98, None), (99, None)], ids=["fresh", "just", "late", "last"]
)
def test_a_mate_on_the_hundredth_ply_wins_and_a_later_one_does_not(clock: int, mate: int | None) -> None:
    fen = KEY_TO_TWO.replace(" 0 1", f" {clock} 60")
    result = find_mate(chess.Board(fen), moves=2, table_bytes=SMALL)
    if clock >= 98:  # 1. Ra6 Bh2 has no time left, but 1... bxa6 2. b7# would begin the count anew
        assert result.mate is None
        assert (result.excluded, result.stop_reason) == (2, "excluded")
    else:
        assert (result.mate, result.shortest) == (mate, True)
        assert_line_mates(result)


def test_the_side_to_move_may_play_on_at_a_hundred_plies_and_mate_behind_a_capture() -> None:
    board = chess.Board("2rr2k1/5ppp/8/8/8/8/3R1PPP/3R2K1 w - - 100 90")
    search = MateSearch(board, table_bytes=SMALL)
    result = search.run(moves=2)
    assert (result.mate, result.pv[0].uci(), result.stop_reason) == (2, "d2d8", "proven")
    assert check_mate(board, 2, search.attack)


def test_at_a_hundred_plies_nobody_is_mated_who_may_claim_a_draw() -> None:
    mated = "k7/8/1K6/8/8/8/8/7R b - - {} 90"
    assert mate_of(mated.format(0)).mate == -1
    assert (mate_of(mated.format(100)).mate, mate_of(mated.format(100)).stop_reason) == (None, "claimable")


def test_no_mate_leads_through_a_position_that_stood_twice_whatever_is_proven_without_the_game() -> None:
    table, board = EntryTable(0), after_line("Ra6 Bh2 Ra1 Bb8 Ra6 Bh2 Ra1 Bb8", KEY_TO_TWO)
    assert find_mate(chess.Board(KEY_TO_TWO), entries=table, table_bytes=SMALL).stored
    assert find_mate(board.copy(stack=False), moves=2, table_bytes=SMALL).mate == 2
    for entries in (None, table):
        result = find_mate(board, moves=2, entries=entries, table_bytes=SMALL)
        assert (result.mate, result.excluded) == (None, 2)


# ---------------------------------------------------------------- against what knows everything
def test_no_claim_contradicts_a_tablebase() -> None:
    folder = shared_data("syzygy")
    generator = random.Random(7)
    claims = 0
    with chess.syzygy.open_tablebase(str(folder)) as tables:
        for path in sorted(Path(folder).glob("*.rtbw")):
            if path.stem in ("KBvK", "KNvK"):
                continue  # dead
            for board in [placed(generator, path.stem) for _ in range(4)]:
                wdl = tables.probe_wdl(board)
                result = find_mate(board, Limits(visits=2500), table_bytes=1 << 20)
                if result.mate is not None:
                    claims += 1
                    assert wdl == (2 if result.mate > 0 else -2), board.fen()
                    assert_line_mates(result)
    assert claims > 8


def test_lengths_of_queen_endings_are_those_of_a_tablebase() -> None:
    """Nothing in these endings begins the count anew: what zeroes it is mate."""
    generator, checked = random.Random(3), 0
    with chess.syzygy.open_tablebase(str(shared_data("syzygy"))) as tables:
        while checked < 8:
            board = placed(generator, "KQvK")
            plies = tables.probe_dtz(board)
            if not 0 < abs(plies) <= 8:
                continue
            board.halfmove_clock = generator.choice((0, 60, 100 - abs(plies)))
            result = find_mate(board, Limits(visits=200_000), table_bytes=SMALL)
            assert (result.mate, result.shortest) == ((plies + (plies > 0)) // 2, True), board.fen()
            assert_line_mates(result)
            board.halfmove_clock = 101 - abs(plies)  # one ply too late
            assert find_mate(board, Limits(visits=2_000), table_bytes=SMALL).mate is None, board.fen()
            checked += 1


def test_short_mates_of_random_positions_are_those_of_trying_everything() -> None:
    generator = random.Random(11)
    found = 0
    for _ in range(50):
        board = placed(generator, generator.choice(["KQRvKN", "KQQvKR", "KRRvKB", "KQPvKP"]))
        plies = mates_within(board, 3)
        result = find_mate(board, moves=2, table_bytes=1 << 18)
        assert result.mate == (None if plies is None else (plies + 1) // 2) or result.mate in (-1, -2)
        if result.mate is not None and result.mate < 0:
            assert mates_within(board, 4, attacks=False) == -2 * result.mate
        found += result.mate is not None
    assert found > 1


def test_mates_of_the_collection_are_found_with_the_right_length() -> None:
    lines = shared_data("data/mates_500.epd").read_text().splitlines()
    cases = [(fen, int(bm.rstrip(";"))) for fen, _, bm in (line.partition(" bm #") for line in lines)]
    cases = sorted(cases, key=lambda case: abs(case[1]))[:62:9]
    for fen, moves in cases:
        board = chess.Board(fen + " 0 1")
        search = MateSearch(board, table_bytes=1 << 26)
        result = search.run(Limits(visits=400_000))
        assert (result.mate, result.shortest) == (moves, True), fen
        assert_line_mates(result)
        assert check_mate(board, moves, search.attack).plies == len(result.pv)


# ---------------------------------------------------------------- limits
def test_a_search_in_slices_goes_on_where_it_stood() -> None:
    whole = mate_of(RETI)
    search = MateSearch(start_of(RETI), table_bytes=SMALL)
    search.limit(Limits(visits=50_000), Control())
    visits = [search.prover.visits for _ in search.steps()]
    assert all(later - earlier <= SLICE for earlier, later in pairwise(visits))
    assert (search.line(), search.is_shortest) == (whole.pv, True)
    assert search.prover.visits == whole.visits


def test_a_stop_ends_the_search_with_what_is_known() -> None:
    stop = threading.Event()

    def show(progress: MateProgress) -> None:
        assert progress.mate is None
        stop.set()

    control = Control(on_progress=show, interval=0.0, stop=stop)
    result = find_mate(chess.Board(), control=control, table_bytes=SMALL)
    assert (result.mate, result.stop_reason) == (None, "stop")


def test_no_path_is_longer_than_the_memory_of_paths() -> None:
    board, prover = chess.Board("8/8/5P2/2K4k/8/8/2P5/8 b - - 0 1"), Prover(size=SMALL)
    prover.ask(board, attacks=False, plies=ANY_LENGTH, visits=280_000)
    assert prover.memory.words.reshape(-1, PW).any(axis=1).nonzero()[0].max() == MOST_PLIES


# ---------------------------------------------------------------- entries
def test_a_limit_of_evaluations_ends_no_search() -> None:
    result = find_mate(chess.Board(), Limits(visits=50, evaluations=1), table_bytes=SMALL)
    assert (result.stop_reason, result.visits) == ("visits", 50)


def test_a_stored_mate_is_known_at_once() -> None:
    table, board = EntryTable(0), chess.Board(RETI)
    first = find_mate(board, entries=table, table_bytes=SMALL)
    entry = present(table.get(board))
    assert first.stored
    assert (entry.value, entry.bound, entry.depth) == (MATE - 5, "exact", PROOF)
    assert entry.move == first.pv[0]
    again = find_mate(board, entries=table, table_bytes=SMALL)
    assert (again.mate, again.shortest, again.pv, again.stored) == (3, True, first.pv, False)
    assert again.visits < first.visits


def test_a_stored_mate_is_shortened_unless_it_is_exact() -> None:
    table, board = EntryTable(0), chess.Board(RETI)
    table.put(board, Entry(MATE - 9, PROOF, "lower", None, "", 0))
    result = find_mate(board, entries=table, table_bytes=SMALL)
    assert (result.mate, result.shortest) == (3, True)
    entry = present(table.get(board))
    assert (entry.mate_plies, entry.bound) == (5, "exact")


# ---------------------------------------------------------------- the same without the compiler
def few_proven() -> list[object]:
    """Returns the facts of two proofs, but their time, and the entries that they made."""
    found: list[object] = []
    for fen in (KEY_TO_TWO, "7k/8/5K2/8/8/8/8/6R1 w - - 90 1"):
        table = EntryTable(0)
        data = find_mate(start_of(fen), Limits(visits=20), entries=table, table_bytes=0).as_dict()
        del data["seconds"]
        found += [data, table.count]
    return found


def test_plain_python_proves_as_compiled_code_does() -> None:
    assert in_plain_python(few_proven) == as_json(few_proven())


# ------------------------------------------------------------------ claims


def by_trying(board: chess.Board, plies: int) -> chess.Move | None:
    """Returns an attacker's move that mates within so many plies, found by trying everything."""
    for move in board.legal_moves:
        board.push(move)
        mated = mates_within(board, plies - 1, attacks=False)
        board.pop()
        if mated is not None:
            return move
    return None


@pytest.mark.parametrize(
    ("board", "moves", "plies"),
    [
        (chess.Board(KEY_TO_TWO), 2, 3),
        (after_line("Ra6", KEY_TO_TWO), -1, 2),
        (chess.Board("7k/6Q1/6K1/8/8/8/8/8 b - - 0 1"), 0, 0),
    ],
)
def test_a_sound_claim_stands_with_its_longest_defence(board: chess.Board, moves: int, plies: int) -> None:
    found = check_mate(board, moves, by_trying)
    assert found.plies == len(found.line) == plies
    assert found.as_dict() == {"plies": plies, "positions": found.positions}


@pytest.mark.parametrize(
    ("fen", "moves", "move", "reason"),
    [
        (chess.STARTING_FEN, 0, "e2e4", "no mate on the board"),
        (KEY_TO_TWO, 1, "a1a6", "lasts longer"),
        (KEY_TO_TWO, 2, "a1a5", "attacker has no move|lasts longer"),
        (KEY_TO_TWO, 2, "a1a8", "attacker has no move"),
        ("7k/8/6K1/8/8/8/8/5Q2 w - - 0 1", 1, "f1f7", "stalemate"),
        ("7k/8/5K2/8/8/8/8/6RR w - - 99 90", 1, "g1g8", "50 moves|lasts longer"),
        ("6bk/8/5K2/8/8/8/8/B7 w - - 0 1", 3, "f6f7", "lasts longer|dead|attacker"),
    ],
)
def test_a_wrong_claim_is_refuted_with_its_line(fen: str, moves: int, move: str, reason: str) -> None:
    def attack(board: chess.Board, plies: int) -> chess.Move:
        return chess.Move.from_uci(move)

    with pytest.raises(MateRefutedError, match=reason) as refuted:
        check_mate(chess.Board(fen), moves, attack)
    board = chess.Board(fen)
    for step in pickle.loads(pickle.dumps(refuted.value)).line:  # as a pool of processes sends it
        board.push(step)


def test_a_third_repetition_on_the_way_refutes() -> None:
    board = after_line("Ra6 Bh2 Ra1 Bb8 Ra6 Bh2 Ra1 Bb8", KEY_TO_TWO)
    with pytest.raises(MateRefutedError, match="third time"):
        check_mate(board, 2, by_trying)
