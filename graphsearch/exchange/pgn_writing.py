"""Writes PGN text by the rules of `chess.pgn`: headers, moves of which the SAN is known, NAGs of mistakes."""

from __future__ import annotations

import chess.pgn

COLUMNS = 80
# least loss of Q against the best move, in [-1, 1], and the NAG: ?!, ?, ??
MISTAKES = ((0.3, 4), (0.2, 2), (0.1, 6))
JUDGED_VISITS = 10  # minimum visits of a move with a NAG


class MoveText(chess.pgn.FileExporter):
    """Writes games to a text stream as `chess.pgn` does, from moves in SAN instead of boards."""

    def visit_san(self, ply: int, san: str) -> None:
        """Writes a move; `ply`: half-moves before it."""
        if not ply & 1:
            self.write_token(f"{ply // 2 + 1}. ")
        elif self.force_movenumber:
            self.write_token(f"{ply // 2 + 1}... ")
        self.write_token(f"{san} ")
        self.force_movenumber = False


def header(name: str, value: str) -> bytes:
    r"""Returns a header line.

    >>> header("Event", 'the "b"')
    b'[Event "the \\"b\\""]\n'
    """
    text = "".join(c if c.isprintable() else "?" for c in value).replace("\\", "\\\\").replace('"', '\\"')
    return f'[{name} "{text}"]\n'.encode()


def pgn_text(game: chess.pgn.Game, headers: dict[str, str]) -> str:
    """Returns a game as PGN with these headers."""
    lines = b"".join(header(name, value) for name, value in headers.items())
    game.headers["Result"] = headers.get("Result", "*")
    moves = game.accept(chess.pgn.StringExporter(columns=COLUMNS, headers=False))
    return f"{lines.decode()}\n{moves}\n"


def mistake_of(loss: float) -> int | None:
    """Returns the NAG of a loss of Q in [0, 2] by `MISTAKES`, None for a small loss.

    ?! (6), ? (2) and ?? (4) from a loss of 0.1, 0.2 and 0.3 on, for moves with 10 visits or more.

    >>> mistake_of(0.3), mistake_of(0.05)
    (4, None)
    """
    return next((nag for least, nag in MISTAKES if loss >= least - 1e-9), None)
