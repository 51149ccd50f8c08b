"""A network's input from packed positions, in each of lc0's formats, and its policy.

The input has eight plies, the latest first. Plies that are unknown, or that the evaluator does not use, are
filled from the oldest known position as in lc0 (`--history-fill=fen_only`): each repeats that position, with
a pawn that may be captured en passant back on its start square; before the start position they are empty.

Everything is in the view of the side to move in the latest position: with Black to move the ranks are
mirrored, files stay. INPUT_CLASSICAL_112_PLANE:
0-103 eight plies of 13 (our P N B R Q K, their P N B R Q K, repetition), 104 our O-O-O, 105 our O-O,
106 their O-O-O, 107 their O-O, 108 ones if Black moves, 109 the halfmove clock, 110 zeros, 111 ones.

    INPUT_112_WITH_CASTLING_PLANE    104 and 105 have both sides' rooks that may castle on the a-side and on
                                     the h-side, for Chess960; 106 and 107 are zeros
    INPUT_112_WITH_CANONICALIZATION  also: 108 has the file of en passant on the 8th rank; plies from before
                                     an irreversible move are empty; without castling rights the board is
                                     turned so that our king is on the files e-h, without pawns also on the
                                     ranks 1-4, and there below the diagonal from h1 to e4
    ..._HECTOPLIES                   also: 109 is the halfmove clock divided by 100
    ..._V2                           also: of the plies before the position, only repetitions are included
    ..._ARMAGEDDON                   also: 110 has ones if Black moves

On a turned board the moves of the policy are turned, too.

The policy has 1858 outputs, moves in the view of the side to move: all queen and knight moves by from-square
and to-square, then promotions to queen, rook and bishop from the 7th rank. A promotion to knight is the plain
move; castling is king takes own rook.
"""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

import chess
import numpy as np
from numpy.typing import NDArray

from ...position import board as word
from ..protocol import LINE_PLIES, Lines, PositionBatch

CLASSICAL_INPUT = 1  # lc0's number of the first format
HISTORY_FILL = "fen_only"  # lc0's name for this way to fill unknown plies

PLIES, PLY_PLANES = LINE_PLIES, 13  # 6 kinds of our men, 6 of theirs, repetition
THEIRS, REPETITION = 6, 12  # planes of a ply
AUXILIARY = PLIES * PLY_PLANES  # 104, the first plane of castling, side, clock and constants
PLANES = AUXILIARY + 8
SQUARES = 64

_START = word.pack(chess.Board())
_PLACE_BITS = np.uint64(0xFFF)  # of META: side, castling, en passant
_BITS = np.uint64(1) << np.arange(SQUARES, dtype=np.uint64)


def input_planes(
    words: NDArray[np.uint64], *, lines: Lines | None = None, rooks: bool = False
) -> NDArray[np.float32]:
    """Returns the planes of packed positions, `[B, 112, 8, 8]`: rank, then file; a1 comes first.

    Args:
      words, lines: as of `planes_and_transforms`. rooks: whether planes 104 and 105 have the castling rooks.
    """
    planes = np.zeros((len(words), PLANES, SQUARES), np.float32)
    meta = words[:, word.META].astype(np.int64)
    black = meta & word.BLACK_TO_MOVE
    plies = planes[:, :AUXILIARY].reshape(len(words), PLIES, PLY_PLANES, SQUARES)
    plies[:, :, :REPETITION] = _men(lines.words if lines else words[:, None], black != 0)
    if lines:
        plies[:, :, REPETITION] = lines.repeated[:, :, None]
    rows = np.arange(len(words))
    files = meta >> word.ROOK_FILES_SHIFT ^ word.STANDARD_ROOK_FILES
    for i in range(4):  # our O-O-O and O-O, then theirs; META has K Q k q
        right = (i // 2 ^ black) * 2 + 1 - i % 2
        has = meta >> word.CASTLING_SHIFT + right & 1 != 0
        if rooks:
            square = (files >> word.FILE_BITS * right & 7) + 56 * (i // 2)
            planes[rows[has], AUXILIARY + i % 2, square[has]] = 1
        else:
            planes[has, AUXILIARY + i] = 1
    planes[:, AUXILIARY + 4] = black[:, None]
    planes[:, AUXILIARY + 5] = (meta >> word.CLOCK_SHIFT & word.CLOCK_BITS)[:, None]
    planes[:, AUXILIARY + 7] = 1
    return planes.reshape(-1, PLANES, 8, 8)


def _men(line: NDArray[np.uint64], black: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """Returns the planes of the men in every ply, `[B, PLIES, 12, 64]`: the known plies, then the fill.

    Args:
      line: `[B, plies, 10]` positions, the latest first; zeros for unknown ones.
      black: `[B]` whether Black is to move in the latest.
    """
    rows = np.arange(len(line))
    known = (line[:, :, word.KINGS] != 0).sum(axis=1)
    shown = line[rows[:, None], np.minimum(np.arange(PLIES), known[:, None] - 1)]
    sides = shown[:, :, [word.WHITE, word.BLACK]]
    sides[black] = sides[black][:, :, ::-1]
    men = shown[:, :, None, : word.KINGS + 1] & sides[..., None]  # [B, PLIES, ours and theirs, kinds]
    is_fill = np.arange(PLIES) >= known[:, None]
    # the pawn that may be captured en passant goes back to its start square
    oldest = line[rows, known - 1]
    meta = oldest[:, word.META].astype(np.int64)
    black_moves = meta & word.BLACK_TO_MOVE != 0
    square = (meta >> word.EN_PASSANT_SHIFT & word.EN_PASSANT_BITS) - 1
    rank = np.where(black_moves, 8, -8)
    pushed = np.where(square >= 0, _BITS[(square + rank) % 64] | _BITS[(square - rank) % 64], 0)
    pusher = (black_moves == black).astype(np.int64)
    men[rows, :, pusher, word.PAWNS] ^= np.where(is_fill, pushed[:, None], 0)
    same = (oldest[:, : word.META] == _START[: word.META]).all(axis=1)
    same &= (oldest[:, word.META] ^ _START[word.META]) & _PLACE_BITS == 0
    men[is_fill & same[:, None]] = 0
    men[black] = men[black].byteswap()  # mirrors the ranks
    bits = np.unpackbits(men.astype("<u8").view(np.uint8), axis=-1, bitorder="little")
    return bits.reshape(len(line), PLIES, 2 * (word.KINGS + 1), SQUARES)


_FIRST_CANONICAL, _FIRST_HECTOPLIES = 3, 4  # numbers of inputs
_REPEATS_ONLY, _ARMAGEDDON = (5, 133), (132, 133)
FLIP, MIRROR, TRANSPOSE = 1, 2, 4  # bits of a transform, done in this order

Planes = NDArray[Any]
Transforms = NDArray[np.int64]


def planes_and_transforms(
    words: NDArray[np.uint64], kind: int, *, lines: Lines | None = None
) -> tuple[Planes, Transforms | None]:
    """Returns the planes of packed positions in an input format, and the transform of each board.

    Args:
      words: `[B, 10]` uint64 packed positions.
      kind: the input format, a number of `network.INPUTS`.
      lines: the previous positions; None to fill the plies from each position alone.

    Returns:
      Planes `[B, 112, 8, 8]`, and `[B]` bits of FLIP, MIRROR and TRANSPOSE; None for formats without turning.
    """
    if kind == CLASSICAL_INPUT:
        return input_planes(words, lines=lines), None
    planes = input_planes(words, lines=lines, rooks=True)
    latest = words[:, word.META].astype(np.int64)
    transforms = None
    if kind >= _FIRST_CANONICAL:
        planes[:, AUXILIARY + 4] = 0
        square = (latest >> word.EN_PASSANT_SHIFT & word.EN_PASSANT_BITS) - 1
        rows = np.flatnonzero(square >= 0)
        planes[rows, AUXILIARY + 4, 7, square[rows] % 8] = 1
        history = lines.words if lines else words[:, None]
        repeated = lines.repeated if lines else np.zeros((len(words), 1), bool)
        _mask_plies(planes, history, repeated, repeats_only=kind in _REPEATS_ONLY)
        transforms = _turn(planes, latest)
    if kind >= _FIRST_HECTOPLIES:
        planes[:, AUXILIARY + 5] /= 100
    if kind in _ARMAGEDDON:
        planes[:, AUXILIARY + 6] = (latest & word.BLACK_TO_MOVE)[:, None, None]
    return planes, transforms


def _mask_plies(
    planes: Planes, history: NDArray[np.uint64], repeated: NDArray[np.bool_], *, repeats_only: bool
) -> None:
    """Clears the plies from before an irreversible move; with `repeats_only`, keeps repetitions only.

    Irreversible are captures, pawn moves, lost castling rights and en passant squares. Unknown plies are
    treated as the oldest known one.
    """
    known = (history[:, :, word.KINGS] != 0).sum(axis=1)
    at = np.minimum(np.arange(PLIES)[None], known[:, None] - 1)
    meta = np.take_along_axis(history[:, :, word.META], at, axis=1).astype(np.int64)
    same_rights = (meta ^ meta[:, :1]) >> word.CASTLING_SHIFT & word.CASTLING_BITS == 0
    no_capture = meta >> word.EN_PASSANT_SHIFT & word.EN_PASSANT_BITS == 0
    no_capture[:, 0] = True
    goes_on = np.ones_like(same_rights)
    goes_on[:, 1:] = (meta >> word.CLOCK_SHIFT & word.CLOCK_BITS != 0)[:, :-1]
    shown = np.logical_and.accumulate(same_rights & no_capture & goes_on, axis=1)
    plies = planes[:, :AUXILIARY].reshape(len(planes), PLIES, PLY_PLANES, 8, 8)
    if repeats_only:
        again = np.zeros_like(shown)
        again[:, : repeated.shape[1]] = repeated
        again[:, 0] = True
        shown &= again & (np.arange(PLIES)[None] < known[:, None])
        order = np.argsort(~shown, axis=1, kind="stable")  # moves the kept plies to the front
        plies[:] = np.take_along_axis(plies, order[:, :, None, None, None], axis=1)
        shown = np.take_along_axis(shown, order, axis=1)
    plies *= shown[:, :, None, None, None]


# ------------------------------------------------------------------ turning
def _turn(planes: Planes, latest: NDArray[np.int64]) -> Transforms:
    transforms = np.array(
        [
            0 if meta >> word.CASTLING_SHIFT & word.CASTLING_BITS else _transform(men)
            for meta, men in zip(latest.tolist(), planes[:, : PLY_PLANES - 1], strict=True)
        ],
        np.int64,
    )
    last = AUXILIARY + 5  # the planes from here on are constant
    for transform in np.unique(transforms[transforms != 0]).tolist():
        rows = transforms == transform
        planes[rows, :last] = _turned(planes[rows, :last], transform)
    return transforms


def _turned(boards: Planes, transform: int) -> Planes:
    """Transforms boards `[..., 8, 8]`: mirrors the files, then the ranks, then along the diagonal h1-a8."""
    if transform & FLIP:
        boards = boards[..., ::-1]
    if transform & MIRROR:
        boards = boards[..., ::-1, :]
    if transform & TRANSPOSE:
        boards = np.swapaxes(boards, -1, -2)[..., ::-1, ::-1]
    return boards


def _transform(men: Planes) -> int:
    rank, file = (int(i[0]) for i in np.nonzero(men[THEIRS - 1]))
    transform = FLIP if file < 4 else 0
    if men[0].any() or men[THEIRS].any():
        return transform
    transform |= MIRROR if rank > 3 else 0
    above = min(rank, 7 - rank) - min(file, 7 - file)  # of the diagonal, with the king moved to e1-h4
    if above > 0 or (above == 0 and _is_larger(men, transform)):
        transform |= TRANSPOSE
    return transform


def _is_larger(men: Planes, transform: int) -> bool:
    """Returns whether a board is a larger number than its transpose: all men, then ours, then by kind."""
    kings, queens, rooks, bishops, knights = (men[i] + men[i + THEIRS] for i in (5, 4, 3, 2, 1))
    for board in (men.sum(axis=0), men[:THEIRS].sum(axis=0), kings, queens, rooks, knights, bishops):
        one, other = (_number(_turned(board, t)) for t in (transform, transform | TRANSPOSE))
        if one != other:
            return one > other
    return False


def _number(board: Planes) -> int:
    """Returns the bitboard of a plane; a1 is the lowest bit."""
    return int.from_bytes(np.packbits(board.reshape(-1) > 0, bitorder="little").tobytes(), "little")


# ------------------------------------------------------------------ policies
POLICY_SIZE = 1858
KING_HOME, TO_BLACK = 4, 56  # e1; from a square of White's to Black's
_MIRROR = np.uint16(56 | 56 << 6)  # XOR mask that mirrors the ranks of a move code
_COMPASS = ((0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1), (-1, 0), (-1, 1))  # file, rank; clockwise
_KNIGHT_STEPS = ((1, 2), (2, 1), (2, -1), (1, -2), (-1, -2), (-2, -1), (-2, 1), (-1, 2))
_PROMOTIONS = {"q": 4, "r": 3, "b": 2}  # as in a move code, in the order of the outputs
_CASTLING = {4 | 6 << 6: 4 | 7 << 6, 4 | 2 << 6: 4}  # e1g1 is e1h1, e1c1 is e1a1

Move = tuple[int, int, str]  # from-square, to-square, letter of q, r, b or nothing


@cache
def policy_moves() -> tuple[Move, ...]:
    """Returns the moves of the outputs, in order.

    >>> moves = policy_moves()
    >>> len(moves), moves[0], moves[1857]
    (1858, (0, 1, ''), (55, 63, 'b'))
    """
    plain = [(a, b, "") for a, b in product(range(64), repeat=2) if _reaches(a, b)]
    promoting = [
        (48 + file, 56 + to, letter)
        for file in range(8)
        for to in range(max(0, file - 1), min(7, file + 1) + 1)
        for letter in _PROMOTIONS
    ]
    return (*plain, *promoting)


def _step(a: int, b: int) -> tuple[int, int]:
    return b % 8 - a % 8, b // 8 - a // 8


def _reaches(a: int, b: int) -> bool:
    """Returns whether a queen or a knight can move between two squares on an empty board."""
    dx, dy = (abs(d) for d in _step(a, b))
    return a != b and (dx == 0 or dy == 0 or dx == dy or {dx, dy} == {1, 2})


@cache
def outputs_of_codes() -> NDArray[np.int64]:
    """Returns the output of each move code, `[4 * word.MOVE_CODES]`, by side and king; -1 if there is none.

    Each side has two parts. The second is for a king at home, with e1g1 and e1c1 as castling. The first is
    for all other positions and for Chess960, whose moves also write castling as king takes rook.
    """
    table = np.full((2, word.MOVE_CODES), -1, np.int64)
    for output, (a, b, letter) in enumerate(policy_moves()):
        table[:, a | b << 6 | _PROMOTIONS.get(letter, 0) << 12] = output
        if a // 8 == 6 and b // 8 == 7 and not letter:  # also a promotion to knight
            table[:, a | b << 6 | 1 << 12] = output
    for code, king_takes_rook in _CASTLING.items():
        table[1, code] = table[1, king_takes_rook]
    mirrored = table[:, np.arange(word.MOVE_CODES, dtype=np.uint16) ^ _MIRROR]
    return np.concatenate([table, mirrored]).reshape(-1)


@cache
def convolution_outputs() -> NDArray[np.int64]:
    """Returns the index of each of the 1858 outputs in a flat convolutional head `[80 * 64]`.

    Planes: seven steps in each of eight directions, eight knight moves, nine promotions (by file step, then
    rook, bishop, queen); within a plane the from-square.
    """
    planes = {(dx * n, dy * n): 7 * i + n - 1 for i, (dx, dy) in enumerate(_COMPASS) for n in range(1, 8)}
    planes |= {step: 56 + i for i, step in enumerate(_KNIGHT_STEPS)}
    cells = [
        (64 + 3 * (_step(a, b)[0] + 1) + "rbq".index(letter) if letter else planes[_step(a, b)]) * 64 + a
        for a, b, letter in policy_moves()
    ]
    return np.array(cells, np.int64)


@cache
def attention_outputs() -> NDArray[np.int64]:
    """Returns the index of each of the 1858 outputs in a flat attention head `[64 * 64 + 8 * 8 * 3]`.

    The head has pairs of from-square and to-square, then promotions: from-file, to-file, queen, rook, bishop.
    """
    cells = [
        64 * 64 + 24 * (a % 8) + 3 * (b % 8) + "qrb".index(letter) if letter else 64 * a + b
        for a, b, letter in policy_moves()
    ]
    return np.array(cells, np.int64)


@cache
def reach_map() -> NDArray[np.float32]:
    """Returns lc0's position encoding of the squares, `[64, 64]`.

    A square's row has 1 at squares that a queen or knight reaches from it on an empty board, -1 at itself.

    >>> reach_map()[0, :10].astype(int).tolist()
    [-1, 1, 1, 1, 1, 1, 1, 1, 1, 1]
    """
    return np.array([[_reaches(a, b) - (a == b) for b in range(64)] for a in range(64)], np.float32)


def output_indices(batch: PositionBatch) -> NDArray[np.int64]:
    """Returns the output index of every move of a batch, `[M]`."""
    words = batch.words
    black = words[:, word.META].astype(np.int64) & word.BLACK_TO_MOVE
    own_king = words[:, word.KINGS] & np.where(black, words[:, word.BLACK], words[:, word.WHITE])
    is_home = own_king == np.where(black, 1 << KING_HOME + TO_BLACK, 1 << KING_HOME)
    part = 2 * black + (is_home & (words[:, word.META] & np.uint64(word.CHESS960) == 0))
    found: NDArray[np.int64] = outputs_of_codes()[batch.by_move(part) * word.MOVE_CODES + batch.moves]
    return found


def priors(batch: PositionBatch, logits: NDArray[np.float32], temperature: float) -> NDArray[np.float32]:
    """Returns the softmax of `logits / temperature`, `[B, 1858]`, over each position's legal moves, `[M]`."""
    rows, starts = batch.by_move(np.arange(len(batch))), batch.offsets[:-1]
    chosen = logits[rows, output_indices(batch)].astype(np.float64)
    powers = np.exp((chosen - np.maximum.reduceat(chosen, starts)[rows]) / temperature)
    found: NDArray[np.float32] = (powers / np.add.reduceat(powers, starts)[rows]).astype(np.float32)
    return found


def turned_back(policy: NDArray[np.float32], transforms: Transforms | None) -> NDArray[np.float32]:
    """Returns the logits `[B, 1858]` of the original boards, from those of the turned ones."""
    if transforms is None or not transforms.any():
        return policy
    found: NDArray[np.float32] = np.take_along_axis(policy, turned_outputs()[transforms], axis=1)
    return found


@cache
def turned_outputs() -> NDArray[np.int64]:
    """Returns the output of each of the 1858 moves on a turned board, by transform, `[8, 1858]`.

    Only FLIP applies to boards with promotions; for other transforms a promotion's entry is arbitrary.
    """
    places = {move: output for output, move in enumerate(policy_moves())}
    table = np.zeros((8, POLICY_SIZE), np.int64)
    for transform in range(8):
        squares = _turned(np.arange(64).reshape(8, 8), transform).reshape(-1)
        to = np.argsort(squares)  # the new place of each square
        for (a, b, letter), output in places.items():
            table[transform, output] = places.get((int(to[a]), int(to[b]), letter), 0)
    return table
