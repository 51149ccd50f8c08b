"""The review of a game and of each of its moves."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import chess

from ...exchange.pgn_writing import line
from .formulas import Figures

COLORS = {chess.WHITE: "white", chess.BLACK: "black"}


@dataclass(frozen=True, slots=True)
class MoveReview:
    """One move of a game. Values are seen by White.

    Attributes:
      ply: half-moves before it. number, white: its move number, and whether White plays it.
      position: FEN before it. n: node N there, 0 if it is dead.
      q, cp, mate: the value after it; mate is None if none is proven.
      best, best_san: the best move. best_line: in SAN; only the move itself if the played one has no mark.
      best_q, best_cp, best_mate: the value after it.
      loss: of Q against the best one, in [0, 2]; loss_cp: in centipawns, each value cut at 1,000.
      accuracy: in [0, 100]. weight: in the mean of a player's accuracies.
      glyph: `??`, `?`, `?!`, `!` or empty. phase: of the position before it.
      novelty: number of imported games with its position if it is the game's novelty, else None.
    """

    ply: int
    number: int
    white: bool
    move: str
    san: str
    position: str
    n: int
    q: float
    cp: int
    mate: int | None
    best: str
    best_san: str
    best_line: tuple[str, ...]
    best_q: float
    best_cp: int
    best_mate: int | None
    loss: float
    loss_cp: int
    accuracy: float
    weight: float
    glyph: str
    phase: str
    novelty: int | None

    @property
    def better(self) -> str:
        """The best line with its move numbers."""
        return " ".join(line(self.best_line, 2 * (self.number - 1) + (not self.white)))


@dataclass(frozen=True, slots=True)
class GameReview:
    """The review of one game.

    Attributes:
      number, line: of the game in its file. start: FEN. q, cp, mate: value of that position for White.
      figures: by colour and phase.
    """

    number: int
    line: int
    headers: dict[str, str]
    result: str
    start: str
    q: float
    cp: int
    mate: int | None
    moves: tuple[MoveReview, ...]
    figures: dict[chess.Color, dict[str, Figures]]

    def of(self, color: chess.Color) -> Figures:
        """Returns the figures of a side over all phases."""
        return sum(self.figures[color].values(), Figures())

    def player(self, color: chess.Color) -> str:
        """Returns the name of a side, or its colour."""
        side = COLORS[color].capitalize()
        name = self.headers.get(side, "").strip()
        return side if name in ("", "?") else name

    def as_dict(self) -> dict[str, object]:
        """Returns the game as an object of the JSON list `games`."""
        return {
            "game": self.number,
            "line": self.line,
            "headers": self.headers,
            "result": self.result,
            "start": self.start,
            "q": self.q,
            "cp": self.cp,
            "mate": self.mate,
            "players": {
                name: self.of(color).as_dict()
                | {"phases": {phase: of.as_dict() for phase, of in self.figures[color].items()}}
                for color, name in COLORS.items()
            },
            "moves": [asdict(move) for move in self.moves],
        }
