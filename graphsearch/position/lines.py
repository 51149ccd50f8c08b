"""Lines of moves as people write them: SAN with move numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import chess


def sans_of(board: chess.Board, moves: Iterable[chess.Move]) -> tuple[str, ...]:
    """Returns the moves of a line in SAN.

    >>> sans_of(chess.Board(), [chess.Move.from_uci("e2e4"), chess.Move.from_uci("e7e5")])
    ('e4', 'e5')
    """
    walk, sans = board.copy(stack=False), []
    for move in moves:
        sans.append(walk.san(move))
        walk.push(move)
    return tuple(sans)


def legal_part(board: chess.Board, line: Iterable[str]) -> list[chess.Move]:
    """Returns the moves of a line in UCI, up to the first that is illegal.

    >>> legal_part(chess.Board(), ["e2e4", "e2e4"])
    [Move.from_uci('e2e4')]
    """
    walk, moves = board.copy(stack=False), []
    for text in line:
        try:
            moves.append(walk.push_uci(text))
        except ValueError:
            break
    return moves


def ply_of(fen: str) -> int:
    """Returns the number of half-moves before a position, from its move number and side to move.

    >>> ply_of("4k3/8/8/8/8/8/8/4K3 b - - 0 7")
    13
    """
    fields = fen.split()
    return 2 * (int(fields[5]) - 1) + (fields[1] == "b")


def number(ply: int, *, first: bool = True) -> str:
    """Returns the move number to print before a move at a ply; for Black, empty unless `first`.

    >>> number(0), number(3), number(3, first=False)
    ('1.', '2...', '')
    """
    if ply & 1:
        return f"{ply // 2 + 1}..." if first else ""
    return f"{ply // 2 + 1}."


def numbered(sans: Sequence[str], ply: int) -> str:
    """Returns moves in SAN with their numbers; the first move is at `ply`.

    >>> numbered(["e5", "Nf3"], 1), numbered(["Kd7", "Ke2", "Ke6"], 13)
    ('1... e5 2. Nf3', '7... Kd7 8. Ke2 Ke6')
    """
    words = [f"{number(at, first=at == ply)} {san}".lstrip() for at, san in enumerate(sans, ply)]
    return " ".join(words)
