"""Writes the move text of a game tree, depth first.

word     an item of the text, with a blank or a line end before it; lines have at most 80 columns
state    offset of the next letter, offset of the last word, the column before it, ...: see the indices below
opened   ids of the open positions; steps: of each twice the next of its moves, plus 1 if a variation is open

A position's best move comes first, then its other moves as variations, then the moves after the best one.
A parenthesis may follow the last word, so the break before that word is written when the next word begins.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..jit.compiler import by_address, inner, kernel
from ..jit.pointers import U, ptr
from ..jit.types import Pointer, int32, int64, uint8, uint32, uint64
from ..position.writing_kernel import DASH, NOUGHT, SPACE, write_integer
from .text_kernel import MATED, POINT, write_copy, write_fixed, write_name

COLUMNS = 80
NEWLINE, OPENS, CLOSES, BEGINS, ENDS, DOLLAR, COMMA, HASH, PERCENT, BRACKET = b"\n(){}$,#%]"
UNKNOWN = -(1 << 31)  # an unknown value

# indices of `state`: bytes of the text, start of the last word, column before it, whether a variation and a
# comment begin with the next word, open positions, missing room, the game; and counts
AT, LAST, COLUMN, OPENING, COMMENT, DEPTH, NEEDED, GAME, POSITIONS, MOVES, TRANSPOSITIONS, STATES = range(12)

MOVE_BYTES, PLY_BYTES = 256, 24  # maxima: a move with its comment; a ply of a reference's line
EVAL, TO, REPEATS, IN_GAME, FIRST, DRAWN, N, Q, P = range(9)  # texts, before the notes
TEXTS = (
    "[%eval ",
    "transposes to",
    "repeats",
    "game ",
    "the first position",
    "draw by repetition or the fifty-move rule",
    "N ",
    "Q ",
    "P ",
)


@by_address
class TreeColumns(NamedTuple):
    """Columns of a `Tree`: positions by id - 1, then moves; q and p are FIXED values or UNKNOWN."""

    parent: Pointer[int64]
    way: Pointer[int64]
    first: Pointer[int64]
    size: Pointer[int32]
    ply: Pointer[int32]
    mate: Pointer[int32]
    note: Pointer[uint8]
    game: Pointer[int32]
    san: Pointer[uint64]
    n: Pointer[uint32]
    p: Pointer[int32]
    q: Pointer[int32]
    cp: Pointer[int32]
    nag: Pointer[uint8]
    child: Pointer[int64]


class Writer(NamedTuple):
    """The output: the text, its state, and the constant texts with their ends."""

    out: Pointer[uint8]
    state: Pointer[int64]
    texts: Pointer[uint8]
    ends: Pointer[int64]


@inner
def _put(w: Writer, letter: int64) -> None:
    w.out[w.state[AT]] = uint8(letter)
    w.state[AT] += 1


@inner
def _begin(w: Writer) -> None:
    """Ends the last word and begins a new one."""
    s = w.state
    length = s[AT] - s[LAST]
    if s[COLUMN] != 0 and s[COLUMN] + 1 + length <= COLUMNS:
        w.out[s[LAST] - 1] = uint8(SPACE)
        s[COLUMN] += 1 + length
    else:
        w.out[s[LAST] - 1] = uint8(NEWLINE)
        s[COLUMN] = length
    s[AT] += 1
    s[LAST] = s[AT]
    if s[OPENING] != 0:
        _put(w, int64(OPENS))
        s[OPENING] = 0
    if s[COMMENT] != 0:
        _put(w, int64(BEGINS))
        s[COMMENT] = 0


@inner
def _text(w: Writer, number: int64) -> None:
    begin = w.ends[number - 1] if number > 0 else int64(0)
    w.state[AT] = write_copy(w.texts, begin, w.ends[number], w.out, w.state[AT])


@inner
def _integer(w: Writer, value: int64) -> None:
    w.state[AT] = write_integer(value, w.out, w.state[AT])


@inner
def _number(w: Writer, ply: int64) -> None:
    """Writes a move number as a word."""
    _begin(w)
    _integer(w, ply // 2 + 1)
    for _ in range(3 if ply & 1 else 1):
        _put(w, int64(POINT))


@inner
def _san(w: Writer, name: uint64) -> None:
    _begin(w)
    w.state[AT] = write_name(name, w.out, w.state[AT])


@inner
def _mates(name: uint64) -> bool:
    while name >> U(8):
        name >>= U(8)
    return name == U(MATED)


@inner
def _eval(w: Writer, t: TreeColumns, move: int64, white: bool) -> None:
    """Writes the `[%eval]` of a move, seen by White: a proven mate, else centipawns."""
    child = t.child[move]
    mate = int64(t.mate[child - 1]) if child > 0 else int64(0)
    cp = int64(t.cp[move])
    if _mates(t.san[move]) or (mate == 0 and cp == UNKNOWN):
        return
    _begin(w)
    _text(w, int64(EVAL))
    if mate != 0:
        _put(w, int64(HASH))
        if white == (mate > 0):
            _put(w, int64(DASH))
        _integer(w, (abs(mate) + 1) // 2)
    else:
        if (cp < 0) == white and cp != 0:
            _put(w, int64(DASH))
        _integer(w, abs(cp) // 100)
        _put(w, int64(POINT))
        _put(w, NOUGHT + abs(cp) // 10 % 10)
        _put(w, NOUGHT + abs(cp) % 10)
    _put(w, int64(BRACKET))


@inner
def _numbers(w: Writer, t: TreeColumns, move: int64) -> None:
    _begin(w)
    _text(w, int64(N))
    _integer(w, int64(t.n[move]))
    if t.q[move] != UNKNOWN:
        _begin(w)
        _text(w, int64(Q))
        w.state[AT] = write_fixed(int64(t.q[move]), int64(-3), w.out, w.state[AT])
    if t.p[move] != UNKNOWN:
        _begin(w)
        _text(w, int64(P))
        w.state[AT] = write_fixed(int64(t.p[move]), int64(1), w.out, w.state[AT])
        _put(w, int64(PERCENT))


@inner
def _above(t: TreeColumns, node: int64, path: Pointer[int64]) -> tuple[int64, int64]:
    """Fills the moves from the root to a position, last move first; returns their number, and the root."""
    length = int64(0)
    while t.parent[node - 1] != 0:
        path[length] = t.way[node - 1]
        length += 1
        node = t.parent[node - 1]
    return length, node


@inner
def _leads_to(t: TreeColumns, above: int64, node: int64) -> bool:
    """Returns whether `above` is `node` or one of its ancestors."""
    while node != above and t.parent[node - 1] != 0:
        node = t.parent[node - 1]
    return node == above


@inner
def _reference(w: Writer, t: TreeColumns, node: int64, child: int64, path: Pointer[int64]) -> None:
    """Writes a reference to the line where a move's child position is expanded."""
    w.state[TRANSPOSITIONS] += 1
    length, root = _above(t, child, path)
    _begin(w)
    _text(w, int64(REPEATS) if _leads_to(t, child, node) else int64(TO))
    if int64(t.game[root - 1]) != w.state[GAME]:
        _begin(w)
        _text(w, int64(IN_GAME))
        _integer(w, int64(t.game[root - 1]))
        if length > 0:
            _put(w, int64(COMMA))
    elif length == 0:
        _begin(w)
        _text(w, int64(FIRST))
    for k in range(length):
        ply = int64(t.ply[root - 1]) + k
        if k == 0 or ply & 1 == 0:
            _number(w, ply)
        _san(w, t.san[path[length - 1 - k]])


@inner
def _write_move(w: Writer, t: TreeColumns, node: int64, move: int64, path: Pointer[int64]) -> None:
    ply, child = int64(t.ply[node - 1]), t.child[move]
    _number(w, ply)
    _san(w, t.san[move])
    if t.nag[move] != 0:
        _begin(w)
        _put(w, int64(DOLLAR))
        _integer(w, int64(t.nag[move]))
    w.state[COMMENT] = 1
    _eval(w, t, move, ply & 1 == 0)
    _numbers(w, t, move)
    if child == 0:
        _begin(w)
        _text(w, int64(DRAWN))
    else:
        if t.note[child - 1] != 0 and not _mates(t.san[move]):
            _begin(w)
            _text(w, int64(P) + int64(t.note[child - 1]))
        if t.size[child - 1] > 0 and t.parent[child - 1] != node:
            _reference(w, t, node, child, path)
    _put(w, int64(ENDS))


@inner
def _room(t: TreeColumns, node: int64, move: int64, path: Pointer[int64]) -> int64:
    """Returns the maximum bytes of a move with its comment."""
    child = t.child[move]
    if child > 0 and t.size[child - 1] > 0 and t.parent[child - 1] != node:
        return MOVE_BYTES + PLY_BYTES * _above(t, child, path)[0]
    return int64(MOVE_BYTES)


@inner
def _expands(t: TreeColumns, node: int64, move: int64) -> bool:
    """Returns whether the moves after a move are written here, not elsewhere in the tree."""
    child = t.child[move]
    return child > 0 and t.parent[child - 1] == node and t.size[child - 1] > 0


@kernel
def write_tree(
    t: TreeColumns,
    texts: NDArray[np.uint8],
    ends: NDArray[np.int64],
    state: NDArray[np.int64],
    opened: NDArray[np.int64],
    steps: NDArray[np.int64],
    path: NDArray[np.int64],
    out: NDArray[np.uint8],
) -> None:
    """Writes moves until all are written, or the next needs `state[NEEDED]` bytes and `out` has less room.

    Args:
      texts: uint8, TEXTS and the notes; ends: int64, end of each text. state: int64[STATES].
      opened, steps: int64[positions], the first `state[DEPTH]` are in use. path: int64[positions], scratch.
      out: uint8; holds `state[AT]` bytes at the start: the last word and the byte before it.
    """
    w = Writer(ptr(out, 0), ptr(state, 0), ptr(texts, 0), ptr(ends, 0))
    x, s = ptr(path, 0), w.state
    s[NEEDED] = 0
    while s[DEPTH] > 0:
        top = s[DEPTH] - 1
        node, k = opened[top], steps[top]
        first, count = t.first[node - 1], int64(t.size[node - 1])
        room = _room(t, node, first + k // 2, x) if k // 2 < count else int64(1)
        if s[AT] + room > len(out):
            s[NEEDED] = room
            return
        if k & 1:
            _put(w, int64(CLOSES))
            steps[top] = k - 1
        elif k // 2 < count:
            move = first + k // 2
            if k == 0:
                s[POSITIONS] += 1
                s[MOVES] += count
            s[OPENING] = int64(1 if k > 0 else 0)
            _write_move(w, t, node, move, x)
            steps[top] = k + 2
            if k > 0 and _expands(t, node, move):
                steps[top] = k + 3
                opened[top + 1], steps[top + 1] = t.child[move], 0
                s[DEPTH] += 1
            elif k > 0:
                _put(w, int64(CLOSES))
        elif count > 0 and _expands(t, node, first):
            opened[top], steps[top] = t.child[first], 0
        else:
            s[POSITIONS] += int64(1 if count == 0 else 0)
            s[DEPTH] -= 1
