"""Progress and report of a review."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ...exchange.report import Problem
from .formulas import PHASES, Figures
from .games import GameChoice
from .results import COLORS, GameReview

OPPONENTS = "opponents"


@dataclass(frozen=True, slots=True)
class ReviewProgress:
    """The progress of a review.

    Attributes:
      stage: such as `Searching`. name: of the file or the game. done, total: in units of the stage.
      count, rate: added visits, and visits per second; 0 while nothing is searched.
    """

    stage: str
    name: str
    done: int
    total: int
    count: int = 0
    rate: float = 0.0


@dataclass(slots=True)
class Player:
    """The figures of one player over all games.

    Attributes:
      games: number of games with a move of the player. points: half for a draw. known: games with a result.
    """

    name: str
    games: int = 0
    points: float = 0.0
    known: int = 0
    phases: dict[str, Figures] = field(default_factory=lambda: {phase: Figures() for phase in PHASES})

    @property
    def all(self) -> Figures:
        """The figures over all phases."""
        return sum(self.phases.values(), Figures())

    def as_dict(self) -> dict[str, Any]:
        """Returns the player as an object of the JSON list `players`."""
        return {
            "name": self.name,
            "games": self.games,
            "points": self.points,
            "games_with_result": self.known,
            **self.all.as_dict(),
            "phases": {phase: figures.as_dict() for phase, figures in self.phases.items()},
        }


_POINTS = {"1-0": (0.0, 1.0), "0-1": (1.0, 0.0), "1/2-1/2": (0.5, 0.5)}  # of Black, of White


@dataclass(slots=True)
class Players:
    """The players of some games, by name; with a chosen player, this one and all opponents together."""

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
      name: of the PGN file. store: of the graph file. visits: of every position.
      chosen: number of chosen games; all: games of the file, as far as it had to be read.
      reviewed, skipped: chosen games that were judged, and that could not be.
      searched, known: positions that got visits, and that had them already.
      new_visits, evaluations: added.
      problems: skipped games, with the line of the reason.
      notes: for the user, one line each.
      stopped: whether it was stopped; then no output is written.
      outputs: written files. players: over all games.
    """

    name: str
    store: str
    visits: int
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
    outputs: list[str] = field(default_factory=list)
    players: Players = field(init=False)

    def __post_init__(self) -> None:
        self.players = Players(self.choice)

    @property
    def failed(self) -> bool:
        """Whether no game could be reviewed."""
        return not self.stopped and not self.reviewed

    def as_dict(self) -> dict[str, Any]:
        """Returns the report as a JSON object, without the games."""
        return {
            "file": self.name,
            "store": self.store,
            "visits": self.visits,
            "chosen": self.chosen,
            "reviewed": self.reviewed,
            "skipped": self.skipped,
            "searched": self.searched,
            "known": self.known,
            "new_visits": self.new_visits,
            "evaluations": self.evaluations,
            "seconds": self.seconds,
            "stopped": self.stopped,
            "outputs": self.outputs,
            "problems": [{"line": one.place, "reason": one.reason} for one in self.problems],
            "notes": self.notes,
            "players": [player.as_dict() for player in self.players.listed()],
        }
