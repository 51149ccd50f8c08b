"""`nnue:FILE|PROGRAM`: networks are read or refused, say what they should, and are searched rightly."""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import chess
import numpy as np
import pytest
from numpy.typing import NDArray

from graphsearch.base.errors import EvaluatorError
from graphsearch.evaluators.factory import create
from graphsearch.evaluators.nnue import evaluator
from graphsearch.evaluators.nnue.evaluation_kernel import area_words
from graphsearch.evaluators.protocol import PositionBatch, checked
from graphsearch.evaluators.quiescence_kernel import DELTA_MARGIN, PLAIN_VALUES, PROMOTION_GAIN, STACK_WORDS
from graphsearch.position.board import encode_move, legal_moves, pack, unpack
from graphsearch.position.tables import load_tables
from graphsearch.position.values import FAR, MATE
from tests.support.nnue import MadeUp, exchanged, features, leb128, scores
from tests.support.positions import random_words

SMALL = evaluator.ARCHITECTURES[-1]
STOCKFISH = shutil.which("stockfish", path="/usr/games:/usr/local/games:/usr/bin:/usr/local/bin")


@cache
def boards_of_games() -> list[chess.Board]:
    return [unpack(words.tolist()) for words in random_words()[::40]]


@cache
def made_up() -> MadeUp:
    return MadeUp.random(SMALL)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("nnue") / "a.nnue"
    path.write_bytes(made_up().file(packed=False))
    return path


def said(weights: NDArray[np.int64], boards: list[chess.Board], *, window: int = 0) -> list[int]:
    """Returns the scores of positions, one after the other in one work area; without a window static ones."""
    words = np.array([pack(board) for board in boards], np.uint64).ravel()
    out = np.zeros(len(boards), np.int64)
    scratch = np.zeros(STACK_WORDS + area_words(int(weights[0])), np.uint64)
    scores(load_tables(), weights, words, np.array([-window, window]), out, scratch)
    return [int(score) for score in out]


# ----------------------------------------------------------------------- files and what they say
@pytest.mark.parametrize(
    ("architecture", "packed"),
    [(SMALL, True), *((one, False) for one in evaluator.ARCHITECTURES)],
    ids=lambda value: str(getattr(value, "width", value)),
)
def test_a_network_of_every_version_says_what_plain_arithmetic_says(
    architecture: Any, packed: bool, tmp_path: Path
) -> None:
    boards = boards_of_games()[::10]
    network = MadeUp.random(
        architecture, {f for b in boards for side in (0, 1) for f in features(b, bool(side))}
    )
    path = tmp_path / "a.nnue"
    path.write_bytes(network.file(packed=packed))
    read = evaluator.read_network(path)
    path.unlink()
    assert read.architecture == architecture
    expected = [network.static(board) * 1000 // architecture.pawn for board in boards]
    assert said(read.weights, boards) == expected


def test_what_is_updated_equals_what_is_summed_anew(file: Path) -> None:
    weights = evaluator.read_network(file).weights
    board, game = chess.Board(), [chess.Board()]
    for word in random_words()[:300]:
        moves = list(board.legal_moves)
        if not moves:
            break
        board.push(moves[int(word[9]) % len(moves)])
        game.append(board.copy(stack=False))
    assert len(game) > 100
    assert said(weights, game) == [said(weights, [one])[0] for one in game]


def plain_quiescence(
    weights: NDArray[np.int64], board: chess.Board, alpha: int, beta: int, ply: int = 0
) -> int:
    """Returns what the quiescence search should: plain alpha-beta over the same static values."""
    if board.is_insufficient_material():
        return 0
    moves = legal_moves(board)
    best = -FAR
    if board.is_check():
        if not moves:
            return ply - MATE
        floor = None
    else:
        best = said(weights, [board])[0]
        floor = max(best, alpha) - best - DELTA_MARGIN
        if not moves:
            return best if best >= beta else 0
        if best >= beta:
            return best
    alpha = max(alpha, best)
    for move in sorted(moves, key=lambda m: order(board, m), reverse=True):
        if floor is not None and not (worth(board, move) > floor and is_tried(board, move)):
            continue
        board.push(move)
        best = max(best, -plain_quiescence(weights, board, -beta, -alpha, ply + 1))
        board.pop()
        alpha = max(alpha, best)
        if best >= beta:
            break
    return best


def worth(board: chess.Board, move: chess.Move) -> int:
    if board.is_en_passant(move):
        return int(PLAIN_VALUES[0])
    victim = board.piece_type_at(move.to_square)
    gain = int(PLAIN_VALUES[victim - 1]) if victim else 0
    promotion = {None: 0, chess.QUEEN: PROMOTION_GAIN}.get(move.promotion, -int(PLAIN_VALUES[5]))
    return gain + promotion


def is_tried(board: chess.Board, move: chess.Move) -> bool:
    if not board.is_capture(move) or move.promotion:
        return move.promotion == chess.QUEEN
    if board.piece_type_at(move.from_square) in (chess.PAWN, chess.KING):
        return True
    return exchanged(board, move) >= 0


def order(board: chess.Board, move: chess.Move) -> tuple[int, int]:
    kind = (board.piece_type_at(move.from_square) or 1) - 1
    return worth(board, move) * 8 - kind, encode_move(move) ^ (0 if board.turn else 56 | 56 << 6)


def test_quiescence_is_plain_alpha_beta_over_the_same_static_values(file: Path) -> None:
    weights = evaluator.read_network(file).weights
    found = said(weights, boards_of_games(), window=FAR)
    assert found == [plain_quiescence(weights, board.copy(), -FAR, FAR) for board in boards_of_games()]
    assert found != said(weights, boards_of_games())


@pytest.mark.parametrize(
    ("fen", "uci", "gain"),
    [
        ("4k3/8/2p5/3p4/8/8/3Q4/4K3 w - - 0 1", "d2d5", 1000 - 9500),
        ("4k3/8/8/3p4/8/8/3Q4/4K3 w - - 0 1", "d2d5", 1000),
        ("3rk3/3r4/8/3p4/8/3R4/3R4/4K3 w - - 0 1", "d3d5", 1000 - 5000),  # x-rays on both sides
        ("3rk3/8/8/3p4/8/3R4/3R4/4K3 w - - 0 1", "d3d5", 1000),
        ("4k3/8/8/8/8/8/8/4KQ2 w - - 0 1", "f1f5", 0),
        ("4k3/8/4p3/8/8/8/8/4KQ2 w - - 0 1", "f1f5", -9500),
        ("1r2k3/2P5/8/8/8/8/8/4K3 w - - 0 1", "c7b8q", 5000 + 8500),
        ("4k3/8/8/3pP3/8/8/8/4K3 w - d6 0 2", "e5d6", 1000),  # en passant
    ],
)
def test_static_exchange(fen: str, uci: str, gain: int) -> None:
    assert exchanged(chess.Board(fen), chess.Move.from_uci(uci)) == gain


# ----------------------------------------------------------------------- evaluations
def test_an_evaluation_is_a_probability_whatever_came_before(file: Path) -> None:
    evaluator = create(f"nnue:{file}")
    batch = PositionBatch.from_boards(boards_of_games()[:12])
    found = checked(batch, evaluator.evaluate(batch))
    one = batch.part(11, 12)
    alone = checked(one, create(f"nnue:{file}").evaluate(one))
    assert (found.wdl[11] == alone.wdl[0]).all()
    assert (found.priors[batch.offsets[11] :] == alone.priors).all()
    assert (found.priors > 0).all()


def check_mirrored(evaluator: Any, boards: list[chess.Board], images: list[chess.Board], turn: int) -> None:
    """Holds V and P of positions to those of their images, whose squares are XORed with `turn`."""
    here, there = (PositionBatch.from_boards(both) for both in (boards, images))
    one, other = evaluator.evaluate(here), evaluator.evaluate(there)
    assert (one.wdl == other.wdl).all()
    for a, b in pairwise(here.offsets):
        at = dict(zip(there.moves[a:b].tolist(), other.priors[a:b].tolist(), strict=True))
        moves = (here.moves[a:b] ^ np.uint16(turn | turn << 6)).tolist()
        np.testing.assert_allclose([at[move] for move in moves], one.priors[a:b], atol=1e-6 * (turn > 7))


@pytest.mark.parametrize("kind", ["nnue", "builtin"])
def test_a_mirror_image_has_the_same_value_and_mirrored_priors(kind: str, file: Path) -> None:
    boards = [*boards_of_games()[:50], chess.Board("3r4/p2k4/1R6/7p/8/4r3/P4K1P/R5rR w - - 0 97")]
    evaluator = create(f"nnue:{file}" if kind == "nnue" else kind)
    check_mirrored(evaluator, boards, [board.mirror() for board in boards], 56)


def without_castling(count: int) -> list[chess.Board]:
    """Returns positions in which nobody may castle; the game goes on. Two have en-passant captures."""
    captures = ("8/8/3k4/8/1Pp4r/8/3K4/8 b - b3 0 1", "8/3k4/8/2pP4/8/8/3K3R/8 w - c6 0 2")
    found = [chess.Board(fen) for fen in captures]
    for words in random_words():
        board = unpack(words.tolist())
        if not board.clean_castling_rights() and not board.is_game_over():
            found.append(board)
    return found[:count]


@pytest.mark.parametrize("of_stockfish", [False, True])
def test_an_image_with_mirrored_files_has_the_same_value_and_mirrored_priors(
    of_stockfish: bool, file: Path
) -> None:
    if of_stockfish and STOCKFISH is None:
        pytest.skip("needs stockfish")
    boards = without_castling(200)
    images = [board.transform(chess.flip_horizontal) for board in boards]
    check_mirrored(create(f"nnue:{STOCKFISH if of_stockfish else file}"), boards, images, 7)


@pytest.mark.usefixtures("_own_cache")
@pytest.mark.skipif(STOCKFISH is None, reason="needs stockfish")
def test_stockfish_s_own_network_says_what_stockfish_says() -> None:
    assert STOCKFISH is not None
    network = evaluator.network_of(STOCKFISH)
    boards = [board for board in boards_of_games() if not board.is_check()]
    asked = "".join(f"position fen {board.fen()}\neval\n" for board in boards) + "quit\n"
    answer = subprocess.run([STOCKFISH], input=asked, capture_output=True, text=True, check=True).stdout
    theirs = [float(text) for text in re.findall(r"NNUE evaluation\s+([+-][\d.]+)", answer)]
    ours = [
        score / 1000 * (1 if b.turn else -1)
        for b, score in zip(boards, said(network.weights, boards), strict=True)
    ]
    assert np.abs(np.array(ours) - np.array(theirs)).max() < 0.0062  # two decimals, and thousandths cut


# ----------------------------------------------------------------------- programs
@pytest.fixture
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluator, "cache_folder", lambda _: tmp_path)


def script(path: Path, body: str) -> str:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


ODD: dict[str, Callable[[Path], object]] = {
    "damaged": lambda path: path.write_bytes(b"damaged"),
    "a folder": Path.mkdir,
    "endless": lambda path: path.symlink_to("/dev/zero"),
}
if hasattr(os, "mkfifo"):
    ODD["a pipe"] = os.mkfifo


@pytest.mark.usefixtures("_own_cache")
@pytest.mark.parametrize("odd", ODD)
def test_a_program_is_asked_for_its_network_once_unless_the_kept_file_is_odd(
    file: Path, tmp_path: Path, odd: str
) -> None:
    asked, expected = tmp_path / "asked", evaluator.read_network(file).sha256
    engine = script(tmp_path / "engine", f"read word name rest; echo $word >> {asked}; cp {file} $name")
    for _ in range(2):
        assert evaluator.network_of(engine).sha256 == expected
    assert asked.read_text() == "export_net\n"
    (kept,) = tmp_path.glob("*.nnue")
    kept.unlink()
    ODD[odd](kept)
    assert evaluator.network_of(engine).sha256 == expected


@pytest.mark.usefixtures("_own_cache")
def test_a_program_without_a_network_is_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(EvaluatorError, match=r"gave no network .*Stockfish 15\.1 to 17\.1 do") as caught:
        evaluator.network_of(script(tmp_path / "engine", "cat > /dev/null"))
    assert "\n" not in str(caught.value)
    monkeypatch.setattr(evaluator, "EXPORT_SECONDS", 0.2)
    with pytest.raises(EvaluatorError, match="gave no network within"):
        evaluator.network_of(script(tmp_path / "hung", "exec sleep 60"))


# ----------------------------------------------------------------------- bad files
def with_word(data: bytes, at: int, word: int) -> bytes:
    return data[:at] + struct.pack("<I", word) + data[at + 4 :]


FEATURES_AT = 12 + len("made up") + 4


def bad_files() -> Iterator[tuple[bytes, str]]:
    raw, packed = made_up().file(packed=False), made_up().file(packed=True)
    rows = FEATURES_AT + 17 + 4 + len(leb128(made_up().bias.tolist())) + 17  # the length of the packed rows
    yield b"", "ends too early"
    yield b"PK\3\4" + raw[4:], "this begins with 0x4034b50"
    yield with_word(raw, 4, 0x1C1037F2), "architecture 0x1c1037f2 is unknown"
    yield with_word(raw, 8, 0xFFFFFFFF), "ends too early"
    yield with_word(raw, FEATURES_AT - 4, 1), "a part's hash is 0x00000001"
    yield raw[:100_000], "ends too early"
    yield raw[:-1], "ends too early"
    yield raw + b"x", "data behind its end"
    yield with_word(packed, rows, 0xFFFFFFFF), "ends too early"
    yield packed[: rows + 4] + b"\xff" * 1000 + packed[rows + 1004 :], "not end"
    yield packed[: rows + 4] + b"\xff\xff\x7f" * 9 + packed[rows + 31 :], "LEB"
    yield packed[: rows + 500], "ends too early"


def test_a_bad_file_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "a.nnue"
    for content, message in bad_files():
        path.write_bytes(content)
        with pytest.raises(EvaluatorError, match=message) as caught:
            create(f"nnue:{path}")
        assert "\n" not in str(caught.value)
        assert str(path) in str(caught.value)
