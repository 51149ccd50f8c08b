"""Reviews the games of a PGN file: searches all positions, then judges the moves and writes the games.

    file -> chosen games -> positions, game by game, last to first -> graph file
    file -> chosen games -> records of the graph -> judgements -> PGN, JSON, figures

The output depends only on the graph file: a repeated command searches nothing and writes the same output.

The scale is Lichess's: a Q in [-1, 1] is its winning chances, and 50 + 50 Q its Win%. Lichess takes them
from centipawns; here they come from the search. Sources: lichess.org/page/accuracy; `AccuracyPercent`,
`Advice` and `AccuracyCP` of lichess-org/lila; `Divider` of lichess-org/scalachess.
"""

from __future__ import annotations

import math
import os
import re
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from statistics import pstdev
from typing import Any

import chess
import chess.engine
import chess.pgn
from chess.polyglot import zobrist_hash

from ...base.answer import Answer, picked, plain
from ...base.dates import date_text, pgn_date
from ...base.errors import ImportFileError, InvalidParameterError, UnknownPositionError
from ...base.limits import WHOLE, shortened
from ...base.version import __version__
from ...evaluators.factory import EvaluatorSpec
from ...evaluators.protocol import Evaluator
from ...exchange.importing import FileProgress, GivenFile, Input, OnProgress, Problem, opened
from ...exchange.output import (
    COLUMNS,
    JUDGED_VISITS,
    MISTAKES,
    Target,
    check_target,
    header,
    mistake_of,
    new_output,
)
from ...graph.view import MoveView, NodeView, Reader, lines_of
from ...position.board import (
    CHECKMATE,
    CLOCK_DRAW,
    NOT_TERMINAL,
    after,
    fen_of,
    key_text,
    occurrences,
    terminal_kind,
)
from ...position.notation import numbered, sans_of
from ...position.openings import Opening, opening_after
from ...position.pgn import GameText, cut_games, read_game
from ...position.values import cp_of, loss_of, negate
from ...search.params import Limits
from ...search.repetition import view_in_game
from ...search.results import Progress
from ...store.ranking import node_mean
from ...store.record_kernel import moves_of
from ...store.store import Store
from ...store.tables import games as tables
from .sessions import SearchSettings, Session, Work, open_session

COLORS = {chess.WHITE: "white", chess.BLACK: "black"}
OnHeaders = Callable[[dict[str, str]], object]


# ------------------------------------------------------------------ selection
@dataclass(frozen=True, slots=True, kw_only=True)
class GameChoice:
    """The criteria for games to review; a game must meet all of them.

    Attributes:
      player: words that must all occur in the name of White or of Black, in any case; empty: anybody.
      color: `white` or `black`, that of the player; empty: either.
      since: the first date; a game of unknown month or day counts as late as possible. Empty: any.
      games: numbers of games in the file, from 1; empty: all.

    Raises:
      InvalidParameterError: for another colour, and for a colour without a player.
    """

    player: str = ""
    color: str = ""
    since: str = ""
    games: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        if self.color not in ("", *COLORS.values()):
            raise InvalidParameterError(f"a color is white or black, not {shortened(self.color)!r}")
        if self.color and not self.player.strip():
            raise InvalidParameterError("a color is that of a player; name the player")
        if self.since:
            object.__setattr__(self, "since", date_text(self.since))

    def takes(self, number: int, headers: dict[str, str]) -> bool:
        """Returns whether a game is chosen."""
        return (
            (not self.games or number in self.games)
            and (not self.player.strip() or bool(self.sides(headers)))
            and (not self.since or f"{_date_of(headers)}~" >= self.since)  # ~ is behind all of them
        )

    def sides(self, headers: dict[str, str]) -> tuple[chess.Color, ...]:
        """Returns the colours that match the player in a game; both colours without a player.

        >>> GameChoice(player="carlsen").sides({"White": "Nepo", "Black": "Carlsen, Magnus"})
        (False,)
        """
        words = self.player.casefold().replace(",", " ").split()
        return tuple(
            color
            for color, name in COLORS.items()
            if self.color in ("", name)
            and all(word in headers.get(name.capitalize(), "").casefold() for word in words)
        )

    def __str__(self) -> str:
        parts = [f"player {self.player}"] if self.player else []
        parts += [f"color {self.color}"] if self.color else []
        parts += [f"since {self.since}"] if self.since else []
        parts += [f"game {', '.join(map(str, sorted(self.games)))}"] if self.games else []
        return ", ".join(parts)


def _date_of(headers: dict[str, str]) -> str:
    """Returns the known part of the date of a game, as `pgn_date`; 0 if its year is unknown."""
    return next(filter(None, (pgn_date(headers.get(name, "")) for name in ("Date", "UTCDate"))), "0")


# ------------------------------------------------------------------ reading
@dataclass(frozen=True, slots=True)
class SourceGame:
    """One game of a file.

    Attributes:
      number, line: of the game in the file, and of its first line, from 1.
      result: from the end of the moves, or the header; `*` if there is none.
      moves: of its mainline. tree: with variations, comments and glyphs.
      notes: for the user, one line each.
    """

    number: int
    line: int
    headers: dict[str, str]
    result: str
    start: chess.Board
    moves: tuple[chess.Move, ...]
    tree: chess.pgn.Game
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The names of the players."""
        return f"{self.headers.get('White', '?')} \u2013 {self.headers.get('Black', '?')}"

    def backwards(self) -> Iterator[chess.Board]:
        """Yields the positions of the mainline, the last one first, with the moves to each on its stack."""
        board = self.start.copy()
        for move in self.moves:
            board.push(move)
        yield board.copy()
        for _ in self.moves:
            board.pop()
            yield board.copy()


def wanted_games(
    lines: Iterable[str], choice: GameChoice, *, on_headers: OnHeaders | None = None
) -> Iterator[tuple[int, GameText]]:
    """Yields the chosen games of a text with their numbers; `on_headers` gets the headers of every game."""
    last = max(choice.games, default=None)
    for number, game in enumerate(cut_games(lines), start=1):
        if last is not None and number > last:
            return
        headers = game.headers
        if on_headers:
            on_headers(headers)
        if choice.takes(number, headers):
            yield number, game


def source_game(number: int, text: GameText) -> SourceGame | Problem:
    """Returns a game as a tree; its mainline ends before a null move, as annotators write it.

    A problem if its text, position or mainline cannot be read, or if it is another variant of chess.
    """
    game = read_game(text, variations=True, null_moves=True)
    if game.variant:
        reason = f"game {number} is {game.variant}; only standard chess and Chess960 can be searched"
        return Problem(text.line, reason)
    if game.error or game.start is None:
        return Problem(game.error_line, f"game {number}: {game.error}")
    return SourceGame(
        number=number,
        line=text.line,
        headers=game.headers,
        result=game.result or game.headers.get("Result", "*"),
        start=game.start,
        moves=tuple(game.moves),
        tree=game.tree,
        notes=(
            *(f"line {line}: {text}" for line, text in sorted((*game.remarks, *game.cuts))),
            *game.passed_over(),
        ),
    )


# ------------------------------------------------------------------ formulas
PHASES = OPENING, MIDDLEGAME, ENDGAME = "opening", "middlegame", "endgame"
MIDDLEGAME_PIECES, ENDGAME_PIECES = 10, 6  # most pieces of both sides, without kings and pawns
FEW_AT_HOME = 4  # pieces of a side on its first rank: with fewer the opening is over

ACCURACY_SCALE, ACCURACY_SLOPE, ACCURACY_SHIFT = 103.1668100711649, 0.04354415386753951, 3.166924740191411
LEAST_WEIGHT, MOST_WEIGHT = 0.5, 12.0  # of a move: the deviation of Win% around it
SHORTEST_WINDOW, LONGEST_WINDOW, PLIES_PER_WINDOW = 2, 8, 10
LEAST_ACCURACY = 1.0  # of a move in a harmonic mean

GLYPHS = {1: "!", 6: "?!", 2: "?", 4: "??"}  # by NAG
ONLY_MOVE_GAP = MISTAKES[1][0]  # least loss of every other move
ONLY_MOVE_P = 0.3  # largest prior of a move that is hard to see
GOOD_MOVE = 1  # the NAG of !


def win_percent(q: float) -> float:
    """Returns the expected score of a Q in per cent.

    >>> win_percent(0.0), win_percent(-1.0), win_percent(0.5)
    (50.0, 0.0, 75.0)
    """
    return 50.0 + 50.0 * q


def move_accuracy(loss: float) -> float:
    """Returns the accuracy, in [0, 100], of a move that loses `loss` of Q, by Lichess's curve.

    `103.1668 exp(-0.04354 * points of Win%) - 3.1669`. Lichess adds 1 for its own uncertainty, and compares a
    position with the next one; here searches of the same size give both moves.

    >>> move_accuracy(0.0), round(move_accuracy(0.2), 1), move_accuracy(2.0)
    (100.0, 63.6, 0.0)
    """
    points = win_percent(loss) - win_percent(0.0)
    found = ACCURACY_SCALE * math.exp(-ACCURACY_SLOPE * points) - ACCURACY_SHIFT
    return min(100.0, max(0.0, found)) if points > 0 else 100.0


def weights(percents: Sequence[float]) -> list[float]:
    """Returns the weight of every move of a game: the standard deviation of Win% around it, as at Lichess.

    `percents`: Win% of one side at every position; one more than the moves.

    >>> weights([50.0, 50.0, 80.0])
    [0.5, 12.0]
    """
    plies = len(percents) - 1
    size = min(LONGEST_WINDOW, max(SHORTEST_WINDOW, plies // PLIES_PER_WINDOW))
    first = max(0, min(size, len(percents)) - 2)  # moves that share the first window
    starts = [0] * first + list(range(len(percents) - size + 1))
    spreads = [pstdev(percents[start : start + size]) for start in starts[:plies]]
    return [min(MOST_WEIGHT, max(LEAST_WEIGHT, spread)) for spread in spreads]


def is_only_move(value: float, others: Sequence[float], prior: float) -> bool:
    """Returns whether a best move gets a !: all others lose 0.2 of Q or more, and its prior is low.

    `others`: values of the other moves with enough visits.

    >>> is_only_move(0.1, [-0.1, -0.4], 0.2), is_only_move(0.1, [-0.1], 0.6), is_only_move(0.1, [], 0.2)
    (True, False, False)
    """
    return bool(others) and prior <= ONLY_MOVE_P and value - max(others) >= ONLY_MOVE_GAP - 1e-9


def phase_of(board: chess.Board, before: str = OPENING) -> str:
    """Returns the phase of a position, never an earlier one than `before`.

    The endgame has at most 6 pieces besides kings and pawns; the middlegame has at most 10, or a side with
    fewer than 4 of its men on its first rank (Lichess's `Divider` without its third rule,
    which measures how the two sides' men are mixed).

    >>> phase_of(chess.Board()), phase_of(chess.Board("8/4k3/8/8/8/8/4P3/4K2R w - - 0 1"))
    ('opening', 'endgame')
    """
    pieces = (board.occupied & ~board.pawns & ~board.kings).bit_count()
    ranks = {chess.WHITE: chess.BB_RANK_1, chess.BLACK: chess.BB_RANK_8}
    home = [(board.occupied_co[color] & rank).bit_count() for color, rank in ranks.items()]
    if pieces <= ENDGAME_PIECES:
        found = ENDGAME
    elif pieces <= MIDDLEGAME_PIECES or min(home) < FEW_AT_HOME:
        found = MIDDLEGAME
    else:
        found = OPENING
    return max(found, before, key=PHASES.index)


@dataclass(slots=True)
class Figures(Answer):
    """Sums over judged moves of one player; those with ?!, ?, ??, ! are counted."""

    json_keys = "moves accuracy mean_loss mean_loss_cp inaccuracies mistakes blunders good"

    moves: int = 0
    loss: float = 0.0
    loss_cp: int = 0
    inaccuracies: int = 0
    mistakes: int = 0
    blunders: int = 0
    good: int = 0
    weight: float = 0.0
    weighted: float = 0.0  # sum of weight * accuracy
    inverse: float = 0.0  # sum of 1 / accuracy

    def add(self, move: MoveReview) -> None:
        """Adds a move."""
        self.moves += 1
        self.loss += move.loss
        self.loss_cp += move.loss_cp
        self.inaccuracies += move.glyph == "?!"
        self.mistakes += move.glyph == "?"
        self.blunders += move.glyph == "??"
        self.good += move.glyph == "!"
        self.weight += move.weight
        self.weighted += move.weight * move.accuracy
        self.inverse += 1.0 / max(LEAST_ACCURACY, move.accuracy)

    def __add__(self, other: Figures) -> Figures:
        return Figures(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    @property
    def accuracy(self) -> float | None:
        """Half the weighted and half the harmonic mean of the moves' accuracies; None without moves."""
        return (self.weighted / self.weight + self.moves / self.inverse) / 2 if self.moves else None

    @property
    def mean_loss(self) -> float | None:
        """Average loss of expected score per move, in per cent; None without moves."""
        return 50.0 * self.loss / self.moves if self.moves else None

    @property
    def mean_loss_cp(self) -> float | None:
        """Average loss per move in centipawns; None without moves."""
        return self.loss_cp / self.moves if self.moves else None


# ------------------------------------------------------------------ reviews
@dataclass(frozen=True, slots=True)
class Value(Answer):
    """The value of a position or a move for one side: Q, and moves to a proven mate, None without one."""

    json_keys = "q cp mate"

    q: float
    mate: int | None = None

    @property
    def cp(self) -> int:
        """The value in centipawns."""
        return cp_of(self.q)

    def turned(self, turn: bool = True) -> Value:
        """Returns the value for the other side if `turn`, else the same."""
        if not turn:
            return self
        return Value(negate(self.q), None if self.mate is None else -self.mate)


@dataclass(frozen=True, slots=True)
class MoveReview(Answer):
    """One move of a game. Values are seen by White.

    Attributes:
      ply: half-moves before it. number, white: its move number, and whether White plays it.
      position: FEN before it. n: node N there; 0 if the game is over by the rules.
      value, best_value: after it, and after the best move.
      best_line: in SAN; only the best move if the played one has no mark.
      loss: of Q against the best move, in [0, 2]; loss_cp: in centipawns, with values clipped to +-1,000.
      accuracy: in [0, 100]. weight: in the mean of a player's accuracies.
      glyph: `??`, `?`, `?!`, `!` or empty. phase: of the position before it.
      novelty: number of imported games with its position if it is the game's novelty, else None.
    """

    json_keys = (
        "ply number white move san position n *value best_move=best best_san best_line best_q=best_value.q"
        " best_cp=best_value.cp best_mate=best_value.mate loss loss_cp accuracy weight glyph phase novelty"
    )

    ply: int
    number: int
    white: bool
    move: str
    san: str
    position: str
    n: int
    value: Value
    best: str
    best_san: str
    best_line: tuple[str, ...]
    best_value: Value
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
    """The review of one game; `value`: of its start, for White."""

    number: int
    line: int
    headers: dict[str, str]
    result: str
    start: str
    value: Value
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
        found = picked(self, "game=number line headers result start *value")
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


# ------------------------------------------------------------------ judging
LINE_PLIES = 8  # of a better line


def judge(read: Reader, game: SourceGame, novelty: tuple[int, int] | None = None) -> GameReview:
    """Returns the review of a game from the records of a graph.

    Args:
      novelty: the ply of the first new move, and the number of games before it.

    Raises:
      UnknownPositionError: if a position of the game has no record.
    """
    positions = positions_of(read, game)
    spread = weights([win_percent(place.value.turned(not place.board.turn).q) for place in positions])
    figures = {color: {phase: Figures() for phase in PHASES} for color in COLORS}
    moves: list[MoveReview] = []
    for ply, move in enumerate(game.moves):
        found = _move(read, positions[ply], positions[ply + 1], move, spread[ply], ply, novelty)
        moves.append(found)
        figures[found.white][found.phase].add(found)
    return GameReview(
        number=game.number,
        line=game.line,
        headers=game.headers,
        result=game.result,
        start=fen_of(game.start),
        value=positions[0].value.turned(not game.start.turn),
        moves=tuple(moves),
        figures=figures,
    )


# ------------------------------------------------------------------ moves
def _move(
    read: Reader,
    before: GamePosition,
    after: GamePosition,
    move: chess.Move,
    weight: float,
    ply: int,
    novelty: tuple[int, int] | None,
) -> MoveReview:
    assert before.best is not None, "a move was played there"
    board, white = before.board, before.board.turn
    best, best_value = before.best
    played = after.value.turned()
    loss = 0.0 if move == best else max(0.0, best_value.q - played.q)
    nag = mistake_of(loss) or (GOOD_MOVE if _is_good(before, move) else None)
    glyph = GLYPHS[nag] if nag else ""
    line = lines_of(partial(map, read), board, [best], plies=LINE_PLIES)[0] if glyph else (best,)
    return MoveReview(
        ply=ply,
        number=board.fullmove_number,
        white=white,
        move=move.uci(),
        san=board.san(move),
        position=fen_of(board),
        n=before.node.visits if before.node else 0,
        value=played.turned(not white),
        best=best.uci(),
        best_san=board.san(best),
        best_line=sans_of(board, line),
        best_value=best_value.turned(not white),
        loss=loss,
        loss_cp=loss_of(best_value.cp, played.cp) if loss else 0,
        accuracy=move_accuracy(loss),
        weight=weight,
        glyph=glyph,
        phase=before.phase,
        novelty=novelty[1] if novelty and novelty[0] == ply else None,
    )


def _is_good(place: GamePosition, move: chess.Move) -> bool:
    """Returns whether a move is the only good one and hard to see, no recapture and no reply to a check."""
    if place.node is None:
        return False
    first, *rest = place.node.moves
    others = [other.q for other in rest if other.n >= JUDGED_VISITS and other.q is not None]
    return (
        first.move == move
        and first.q is not None
        and not place.board.is_check()
        and not (place.came and place.came.to_square == move.to_square)
        and is_only_move(first.q, others, first.p)
    )


DRAW = Value(0.0)


@dataclass(frozen=True, slots=True)
class GamePosition:
    """A position of a game; values are seen by the side to move, in this game.

    Attributes:
      board: without its history. came: the move before it. node: None if the game is over by the rules.
      best: its best move and the value after it; None: no legal move.
    """

    board: chess.Board
    came: chess.Move | None
    phase: str
    node: NodeView | None
    value: Value
    best: tuple[chess.Move, Value] | None


def positions_of(read: Reader, game: SourceGame) -> list[GamePosition]:
    """Returns the positions of a game in order."""
    walk, phase, found = game.start.copy(), OPENING, list[GamePosition]()
    for move in (*game.moves, None):
        phase = phase_of(walk, phase)
        found.append(_place(read, walk, phase))
        if move:
            walk.push(move)
    return found


def _place(read: Reader, board: chess.Board, phase: str) -> GamePosition:
    bare, came = board.copy(stack=False), board.move_stack[-1] if board.move_stack else None
    kind = terminal_kind(board)
    if kind != NOT_TERMINAL:
        value = Value(-1.0, 0) if kind == CHECKMATE else DRAW
        any_move = next(iter(bare.legal_moves), None)  # players may continue in dead positions
        return GamePosition(bare, came, phase, None, value, (any_move, DRAW) if any_move else None)
    twice = occurrences(board, 2)
    node = view_in_game(read, board, twice, lines=0)
    if node is None:
        raise UnknownPositionError(f"the file does not hold this position of the game: {fen_of(board)}")
    may_claim = board.halfmove_clock >= CLOCK_DRAW or zobrist_hash(board) in twice
    value = DRAW if may_claim else Value(node.q, node.mate)
    return GamePosition(bare, came, phase, node, value, _best(read, board, node, twice))


def _best(
    read: Reader, board: chess.Board, node: NodeView, twice: Collection[int]
) -> tuple[chess.Move, Value]:
    """Returns the best move with its value: the search's best, or one that draws by repetition."""
    moves = [move.move for move in node.moves] if twice else []
    repeats = [move for move in moves if zobrist_hash(after(board, move)) in twice]
    first = next((move for move in node.moves if move.move not in repeats), None)
    value = _worth(read, board, node, first) if first else DRAW
    if first is None or (repeats and value.q < 0):
        return repeats[0], DRAW
    return first.move, value


def _worth(read: Reader, board: chess.Board, node: NodeView, move: MoveView) -> Value:
    """Returns the value of a move for the side that plays it: the child's if it has the edge's visits."""
    child = after(board, move.move)
    kind, mate = terminal_kind(child), move.mate
    if mate and mate > 0:
        mate -= 1  # the moves that remain
    if kind != NOT_TERMINAL:
        return Value(1.0, 0) if kind == CHECKMATE else DRAW
    if child.halfmove_clock >= CLOCK_DRAW:
        return DRAW
    record = read(child)
    if record is not None and record.visits >= move.n:
        proof = record.proof_at(child.halfmove_clock)
        if mate is None and proof and proof.mate is not None:
            mate = moves_of(-proof.result, proof.mate)
        return Value(negate(node_mean(record)[0]), mate)
    if move.q is None:  # a proof that needed no visit
        return Value(node.q, mate)
    return Value(move.q, mate)


class Novelties:
    """Finds novelties against the games in a graph file."""

    def __init__(self, store: Store, digests: Sequence[str]) -> None:
        """If the file has imported the reviewed PGN file, one game with each move is the reviewed one."""
        self._store = store
        self._own = sum(one.digest in digests for one in tables.sources(store) if one.kind == "pgn")

    def find(self, game: SourceGame) -> tuple[int, int] | None:
        """Returns the ply of the novelty and the number of games with its position; None if there is none.

        The novelty is the first move that no game has played in a known position, unless it transposes to a
        known position.
        """
        keys, walk = [key_text(game.start)], game.start.copy()
        for move in game.moves:
            walk.push(move)
            keys.append(key_text(walk))
        counts = tables.games_by_move(self._store, keys)
        played = [move.uci() for move in (*game.moves, chess.Move.null())]
        others = [dict(counts.get(key, {})) for key in keys]  # games, by move
        for games, name in zip(others, played, strict=True):
            if name in games:
                games[name] = max(0, games[name] - self._own)
        for ply, name in enumerate(played[:-1]):
            before = sum(others[ply].values())
            if not before:
                return None
            if not others[ply].get(name) and not any(others[ply + 1].values()):
                return ply, before
        return None


# ------------------------------------------------------------------ the review of a file
LEAST_VISITS = 10  # of a position; fewer are too few to judge its moves
SAY_SECONDS = 0.2
NAMES_SHOWN = 5  # of players, in the message that no player has the given name
OnGame = Callable[[GameReview], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewSettings(SearchSettings):
    """The settings of a review; `limits` allow 10 visits of a position or more, or name no visits.

    Attributes:
      choice: of the games. pgn: target of the annotated games; None: not written.
    """

    limits: Limits = field(default_factory=lambda: Limits(visits=1000))
    choice: GameChoice = field(default_factory=GameChoice)
    pgn: Target | None = None

    def __post_init__(self) -> None:
        visits = self.limits.visits
        if visits is not None and not LEAST_VISITS <= visits <= WHOLE.most:
            raise InvalidParameterError(f"visits must be at least {LEAST_VISITS}, not {visits:,}")


@dataclass(slots=True, kw_only=True)
class ReviewReport(Work):
    """The report of a review; when it was stopped, no output is written.

    Attributes:
      name: of the PGN file. store: of the graph file. visits: of every position, None without this limit.
      all, chosen: numbers of games in the file, and of chosen ones.
      reviewed, skipped: numbers of chosen games that were judged, and that could not be.
    """

    name: str
    store: str
    visits: int | None
    choice: GameChoice
    chosen: int = 0
    all: int = 0
    reviewed: int = 0
    skipped: int = 0
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


def review(
    path: str | os.PathLike[str],
    given: GivenFile,
    settings: ReviewSettings,
    *,
    evaluator: Evaluator | EvaluatorSpec,
    ram_bytes: int | None = None,
    stop: threading.Event | None = None,
    on_progress: OnProgress | None = None,
    on_game: OnGame | None = None,
) -> ReviewReport:
    """Reviews the chosen games of a PGN file, and returns a report.

    Args:
      path: the graph file, created if missing. Positions that have their visits there are not searched.
      given: the PGN file, plain, gzip or zstd.
      stop: set it, from any thread or a signal handler, to save and return without output; the same call
        resumes.
      evaluator: the caller closes one that it passes; a specification is made for the review.
      ram_bytes: memory of the graph.
      on_game: called with every reviewed game.

    Raises:
      InvalidParameterError: if no game matches the choice.
      ImportFileError: if the PGN file cannot be read, or has no games.
      ExportError: if an output cannot be written.
      EvaluatorError: if the evaluator fails; all results until then are saved.
      EvaluatorMismatchError: if the graph file is bound to another evaluator.
      StoreLockedError: if another process is writing the graph file.
      StoreError: if the graph file cannot be read or written.
    """
    visits, started = settings.limits.visits, time.monotonic()
    report = ReviewReport(name=given.name, store=str(Path(path)), visits=visits, choice=settings.choice)
    work = _Review(Path(path), settings, stop or threading.Event(), on_progress, on_game, report)

    def on_bytes(done: int, total: int) -> None:
        work.look_at_stop()
        work.show("Reading", given.name, done, total)

    try:
        with opened(given, work.path.absolute().parent, on_bytes, work.look_at_stop) as file:
            check_target(settings.pgn, store=work.path, source=None if given.stream else Path(given.name))
            work.count(file)
            with open_session(
                work.path, evaluator, settings, work.stop, report, ram_bytes=ram_bytes
            ) as session:
                work.search(session, file)
                work.look_at_stop()
                if report.chosen > report.skipped:
                    work.write(session, file)
    except _StoppedError:
        report.stopped = True
    report.seconds = time.monotonic() - started
    return report


class _StoppedError(Exception):
    """The user has stopped the review."""


@dataclass(slots=True)
class _Review:
    """One call of `review`; `positions`: number of those of the chosen games."""

    path: Path
    settings: ReviewSettings
    stop: threading.Event
    on_progress: OnProgress | None
    on_game: OnGame | None
    report: ReviewReport
    positions: int = 0
    shown_at: float = 0.0

    def look_at_stop(self) -> None:
        """Ends the review if the user has stopped it."""
        if self.stop.is_set():
            raise _StoppedError

    # ---------------------------------------------------------- reading
    def count(self, file: Input) -> None:
        """Counts the chosen games and their positions, for the progress; raises if there are none."""
        names: list[str] = []
        report, choice = self.report, self.settings.choice

        def note(headers: dict[str, str]) -> None:
            report.all += 1
            if len(names) < NAMES_SHOWN:
                names.extend(headers[side] for side in ("White", "Black") if headers.get(side))

        for _, game in wanted_games(file.lines(), choice, on_headers=note):
            report.chosen += 1
            self.positions += len(read_game(game).moves) + 1
        if not report.all:
            raise ImportFileError(f"{file.name} has no games")
        if not report.chosen:
            known = f"; players there are {', '.join(dict.fromkeys(names))}" if choice.player else ""
            raise InvalidParameterError(
                f"none of the {report.all:,} games of {file.name} is of {choice}{known}"
            )

    def _games(self, file: Input, *, first: bool) -> Iterator[SourceGame]:
        """Yields the readable chosen games; the `first` time, it notes the others in the report."""
        file.rewind()
        for number, text in wanted_games(file.lines(), self.settings.choice):
            game = source_game(number, text)
            if isinstance(game, SourceGame):
                yield game
            elif first:
                self.report.skipped += 1
                self.report.problems.append(game)

    # ---------------------------------------------------------- working
    def search(self, session: Session, file: Input) -> None:
        """Searches the positions of the games, the last of each game first."""
        report, began, at = self.report, time.monotonic(), ""

        def show(now: Progress | None) -> None:
            """Shows the progress; `now`: of the current position, None between two."""
            unit = report.visits or 1
            done, visits = (report.searched + report.known) * unit, report.new_visits
            if now is not None:
                done += (min(now.visits, unit) if report.visits else 0) - unit
                visits += now.new_visits
            rate = visits / max(time.monotonic() - began, 1e-9)
            self.show("Searching", at, done, self.positions * unit, visits, rate)

        def positions() -> Iterator[tuple[None, chess.Board]]:
            nonlocal at
            for game in self._games(file, first=True):
                report.notes += [f"game {game.number}: {note}" for note in game.notes]
                for board in game.backwards():
                    at = f"game {game.number}, {game.name}, ply {len(board.move_stack)}"
                    show(None)
                    yield None, board

        for _ in session.run(positions(), on_progress=show if self.on_progress else None):
            show(None)
        session.finish()

    def write(self, session: Session, file: Input) -> None:
        """Judges the games, and writes them to the output."""
        pgn, report = self.settings.pgn, self.report
        with ExitStack() as files, Store.open(self.path, read_only=True) as store:
            out = None if pgn is None else files.enter_context(new_output(pgn, store=self.path))
            kind, limits = store.identity.kind.replace(";", ","), limits_text(self.settings.limits)
            novelties = Novelties(store, file.digests)
            for game in self._games(file, first=False):
                self.look_at_stop()
                found = judge(session.read, game, novelties.find(game))
                if out is not None:
                    text = annotated(game, found, f"graphsearch {__version__}, {kind}, {limits}")
                    out.write(b"\n" * (report.reviewed > 0) + text)
                report.reviewed += 1
                report.players.add(found)
                self.show("Writing", game.name, report.reviewed, report.chosen)
                if self.on_game:
                    self.on_game(found)
        if isinstance(pgn, (str, os.PathLike)):
            report.output = str(pgn)

    def show(self, stage: str, name: str, done: int, total: int, count: int = 0, rate: float = 0.0) -> None:
        """Reports the progress, at most every `SAY_SECONDS`."""
        now = time.monotonic()
        if self.on_progress and now - self.shown_at >= SAY_SECONDS:
            self.shown_at = now
            self.on_progress(FileProgress(stage, name, done, total, count, rate))


NAG_OF = {glyph: nag for nag, glyph in GLYPHS.items()}
JUDGEMENTS = frozenset(range(1, 8))  # NAGs that judge a move: one is enough
NOVELTY = chess.pgn.NAG_NOVELTY
_OWN = re.compile(r"(?:; )?graphsearch [^;]*")


def annotated(game: SourceGame, review: GameReview, annotator: str) -> bytes:
    """Returns a game as PGN, after adding the review to its tree; `annotator`: for the header Annotator."""
    annotate(game.tree, review)
    game.tree.headers["Result"] = game.result
    headers = {name: value for name, value in game.headers.items() if name != "Annotator"}
    if opening := review.opening:
        headers.setdefault("ECO", opening.eco)
        headers.setdefault("Opening", opening.name)
    before = _OWN.sub("", game.headers.get("Annotator", "")).strip("; ")
    headers["Annotator"] = f"{before}; {annotator}" if before else annotator
    text = game.tree.accept(chess.pgn.StringExporter(columns=COLUMNS, headers=False))
    tags = b"".join(header(name, value) for name, value in headers.items())
    return tags + b"\n" + text.strip().encode() + b"\n"


def limits_text(limits: Limits) -> str:
    """Returns the limits of a position in words.

    >>> limits_text(Limits(visits=400, seconds=2.5))
    '400 visits, 2.5 s'
    """
    names = {"visits": "visits", "evaluations": "evaluations", "seconds": "s"}
    return ", ".join(f"{value:.15g} {names[name]}" for name, value in limits.as_dict().items())


def annotate(tree: chess.pgn.Game, review: GameReview) -> None:
    """Adds the results of a review to the mainline of a game."""
    for node, move in zip(tree.mainline(), review.moves, strict=True):
        node.set_eval(_score(move.value.cp, move.value.mate))
        if move.glyph and not node.nags & JUDGEMENTS:
            node.nags.add(NAG_OF[move.glyph])
        if move.novelty is not None and NOVELTY not in node.nags:
            node.nags.add(NOVELTY)
            plural = "" if move.novelty == 1 else "s"
            node.comment = f"{node.comment} N, after {move.novelty:,} game{plural}".strip()
        if move.loss and move.glyph:
            _add_better(node.parent, move)


def _add_better(node: chess.pgn.GameNode, move: MoveReview) -> None:
    """Adds the better line as a variation; if one has its first move, adds only an evaluation there."""
    known = next((one for one in node.variations[1:] if one.move.uci() == move.best), None)
    first = known or node.add_variation(chess.Move.from_uci(move.best))
    if known is None:
        end, board = first, first.board()
        for san in move.best_line[1:]:
            end = end.add_variation(board.push_san(san))
    if known is None or known.eval() is None:
        first.set_eval(_score(move.best_value.cp, move.best_value.mate))


def _score(cp: int, mate: int | None) -> chess.engine.PovScore | None:
    """Returns an evaluation seen by White; None for a mate on the board, which needs none."""
    score = chess.engine.Cp(cp) if mate is None else chess.engine.Mate(mate)
    return None if mate == 0 else chess.engine.PovScore(score, chess.WHITE)
