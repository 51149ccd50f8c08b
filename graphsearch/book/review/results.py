"""The review of a game and of each of its moves."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import chess

from ...base.answer import Answer, picked, plain
from ...exchange.importing import Problem
from ...position.lines import numbered
from ...position.openings import Opening, opening_after
from .formulas import PHASES, Figures
from .games import GameChoice

COLORS = {chess.WHITE: "white", chess.BLACK: "black"}


@dataclass(frozen=True, slots=True)
class MoveReview:
    """One move of a game. Values are seen by White.

    Attributes:
      ply: half-moves before it. number, white: its move number, and whether White plays it.
      position: FEN before it. n: node N there; 0 if the game is over by the rules.
      q, cp, mate: the value after it; mate is None if none is proven.
      best, best_san: the best move. best_line: in SAN; only the best move if the played one has no mark.
      best_q, best_cp, best_mate: the value after the best move.
      loss: of Q against the best move, in [0, 2]; loss_cp: in centipawns, with values clipped to +-1,000.
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
        return numbered(self.best_line, 2 * (self.number - 1) + (not self.white))


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

    @property
    def opening(self) -> Opening | None:
        """The opening of the game; None if it has no name."""
        start = None if self.start == chess.STARTING_FEN else self.start
        return opening_after(start, [move.san for move in self.moves])

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
        players = {
            name: self.of(color).as_dict() | {"phases": plain(self.figures[color])}
            for color, name in COLORS.items()
        }
        found = picked(self, "game=number line headers result start q cp mate")
        return found | {"players": players} | picked(self, "opening moves")


OPPONENTS = "opponents"


@dataclass(slots=True)
class Player(Answer):
    """The figures of one player over all games.

    Attributes:
      games: number of games with a move of the player. points: half for a draw. known: games with a result.
    """

    json_keys = "name games points games_with_result=known *all phases"

    name: str
    games: int = 0
    points: float = 0.0
    known: int = 0
    phases: dict[str, Figures] = field(default_factory=lambda: {phase: Figures() for phase in PHASES})

    @property
    def all(self) -> Figures:
        """The figures over all phases."""
        return sum(self.phases.values(), Figures())


_POINTS = {"1-0": (0.0, 1.0), "0-1": (1.0, 0.0), "1/2-1/2": (0.5, 0.5)}  # of Black, of White


@dataclass(slots=True)
class Players:
    """The players of games, by name; with a chosen player, this player and all opponents as one."""

    choice: GameChoice
    _by_name: dict[str, Player] = field(default_factory=dict)

    def add(self, game: GameReview) -> None:
        """Adds a game."""
        chosen = self.choice.sides(game.headers) if self.choice.player.strip() else ()
        for color in COLORS:
            name = OPPONENTS if chosen and color not in chosen else game.player(color)
            player = self._by_name.setdefault(name, Player(name))
            player.games += 1
            if game.result in _POINTS:
                player.known += 1
                player.points += _POINTS[game.result][color]
            for phase in PHASES:
                player.phases[phase] += game.figures[color][phase]

    def listed(self) -> list[Player]:
        """Returns the players with the most games first; opponents come last."""
        return sorted(self._by_name.values(), key=lambda one: (one.name == OPPONENTS, -one.games, one.name))


@dataclass(slots=True)
class ReviewReport:
    """The report of a review.

    Attributes:
      name: of the PGN file. store: of the graph file. visits: of every position, None without this limit.
      chosen: number of chosen games; all: number of games read from the file.
      reviewed, skipped: numbers of chosen games that were judged, and that could not be.
      searched, known: numbers of positions that got visits, and that had them already.
      new_visits, evaluations: added.
      problems: skipped games, with line and reason.
      notes: for the user, one line each.
      stopped: whether it was stopped; then no output is written.
      output: the written file, None without one. players: over all games.
    """

    name: str
    store: str
    visits: int | None
    choice: GameChoice
    chosen: int = 0
    all: int = 0
    reviewed: int = 0
    skipped: int = 0
    searched: int = 0
    known: int = 0
    new_visits: int = 0
    evaluations: int = 0
    seconds: float = 0.0
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    stopped: bool = False
    output: str | None = None
    players: Players = field(init=False)

    def __post_init__(self) -> None:
        self.players = Players(self.choice)

    @property
    def failed(self) -> bool:
        """Whether no game could be reviewed."""
        return not self.stopped and not self.reviewed

    def as_dict(self) -> dict[str, Any]:
        """Returns the report as a JSON object, without the games."""
        names = "file=name store visits chosen reviewed skipped searched known new_visits evaluations seconds"
        found = picked(self, f"{names} stopped output")
        found["problems"] = [picked(one, "line=place reason") for one in self.problems]
        return found | {"notes": self.notes, "players": plain(self.players.listed())}
