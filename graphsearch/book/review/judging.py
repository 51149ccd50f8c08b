"""Judges the moves of a game: formulas, the review of a game and of its moves, and the figures of players.

The scale is Lichess's: a Q in [-1, 1] is its winning chances, and 50 + 50 Q its Win%. Lichess takes them
from centipawns; here they come from the search. Sources: lichess.org/page/accuracy; `AccuracyPercent`,
`Advice` and `AccuracyCP` of lichess-org/lila; `Divider` of lichess-org/scalachess.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from statistics import pstdev

import chess
from chess.polyglot import zobrist_hash

from ...base.answer import Answer, picked, plain
from ...base.errors import UnknownPositionError
from ...exchange.pgn_writing import JUDGED_VISITS, MISTAKES, mistake_of
from ...graph.view import MoveView, NodeView, Reader, line_of
from ...position.board import (
    CHECKMATE,
    CLOCK_DRAW,
    NOT_TERMINAL,
    fen_of,
    history_keys,
    key_text,
    terminal_kind,
)
from ...position.notation import numbered, sans_of
from ...position.openings import Opening, opening_after
from ...position.values import cp_of, loss_of, negate
from ...search.repetition import view_in_game
from ...store.ranking import node_mean
from ...store.record_kernel import moves_of
from ...store.store import Store
from ...store.tables import games as tables
from .games import GameChoice, SourceGame

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

    Args:
      percents: Win% of one side at every position; one more than the moves.

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

    Args:
      value: of the move. others: values of the other moves with enough visits.
      prior: of the move, in [0, 1].

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
    """Sums over moves of one player.

    Attributes:
      moves: number of judged moves. loss: of Q. loss_cp: in centipawns, as `clipped` limits them.
      inaccuracies, mistakes, blunders, good: moves with ?!, ?, ??, !.
    """

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


COLORS = {chess.WHITE: "white", chess.BLACK: "black"}


@dataclass(frozen=True, slots=True)
class MoveReview(Answer):
    """One move of a game. Values are seen by White.

    Attributes:
      ply: half-moves before it. number, white: its move number, and whether White plays it.
      position: FEN before it. n: node N there; 0 if the game is over by the rules.
      value: after it.
      best, best_san: the best move. best_line: in SAN; only the best move if the played one has no mark.
      best_value: after the best move.
      loss: of Q against the best move, in [0, 2]; loss_cp: in centipawns, with values clipped to +-1,000.
      accuracy: in [0, 100]. weight: in the mean of a player's accuracies.
      glyph: `??`, `?`, `?!`, `!` or empty. phase: of the position before it.
      novelty: number of imported games with its position if it is the game's novelty, else None.
    """

    json_keys = (
        "ply number white move san position n *value best best_san best_line best_q=best_value.q"
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
    """The review of one game.

    Attributes:
      number, line: of the game in its file. start: FEN. value: of that position for White.
      figures: by colour and phase.
    """

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
      read: returns the record of a position.
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
    line = line_of(read, board, best, plies=LINE_PLIES) if glyph else (best,)
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
    """A position of a game.

    Attributes:
      board: without its history. came: the move before it. node: None if the game is over by the rules.
      value: for the side to move, in this game.
      best: its best move and the value for the side that plays it; None: no legal move.
    """

    board: chess.Board
    came: chess.Move | None
    phase: str
    node: NodeView | None
    value: Value
    best: tuple[chess.Move, Value] | None


def positions_of(read: Reader, game: SourceGame) -> list[GamePosition]:
    """Returns the positions of a game in order."""
    walk = game.start.copy()
    keys, phase, found = [zobrist_hash(walk)], phase_of(walk), list[GamePosition]()
    for move in (*game.moves, None):
        phase = phase_of(walk, phase)
        twice = _stood_twice(keys, walk.halfmove_clock)
        found.append(_place(read, walk, phase, twice, drawn=_is_drawn(keys, walk)))
        if move:
            walk.push(move)
            keys.append(zobrist_hash(walk))
    return found


def _stood_twice(keys: Sequence[int], clock: int) -> frozenset[int]:
    """Returns the positions that occurred twice or more so far and can occur again."""
    counts = Counter(keys[max(0, len(keys) - 1 - clock) :])
    return frozenset(key for key, count in counts.items() if count >= 2)


def _is_drawn(keys: Sequence[int], board: chess.Board) -> bool:
    """Returns whether the side to move may claim a draw in the last position by the game's history."""
    return (
        board.halfmove_clock >= CLOCK_DRAW or keys[-1] in _stood_twice(keys[:-1], board.halfmove_clock - 1)
    ) and terminal_kind(board) != CHECKMATE


def _place(
    read: Reader, board: chess.Board, phase: str, twice: frozenset[int], *, drawn: bool
) -> GamePosition:
    bare, came = board.copy(stack=False), board.move_stack[-1] if board.move_stack else None
    kind = terminal_kind(board)
    if kind != NOT_TERMINAL:
        value = Value(-1.0, 0) if kind == CHECKMATE else DRAW
        any_move = next(iter(bare.legal_moves), None)  # players may continue in dead positions
        return GamePosition(bare, came, phase, None, value, (any_move, DRAW) if any_move else None)
    node = view_in_game(read, board, history_keys(board), lines=0)
    if node is None:
        raise UnknownPositionError(f"the file does not hold this position of the game: {fen_of(board)}")
    value = DRAW if drawn else Value(node.q, node.mate)
    return GamePosition(bare, came, phase, node, value, _best(read, board, node, twice))


def _best(
    read: Reader, board: chess.Board, node: NodeView, twice: frozenset[int]
) -> tuple[chess.Move, Value]:
    """Returns the best move with its value: the search's best, or one that draws by repetition."""
    repeats = [move.move for move in node.moves if twice and _key_after(board, move.move) in twice]
    first = next((move for move in node.moves if move.move not in repeats), None)
    value = _worth(read, board, node, first) if first else DRAW
    if first is None or (repeats and value.q < 0):
        return repeats[0], DRAW
    return first.move, value


def _key_after(board: chess.Board, move: chess.Move) -> int:
    board.push(move)
    try:
        return zobrist_hash(board)
    finally:
        board.pop()


def _worth(read: Reader, board: chess.Board, node: NodeView, move: MoveView) -> Value:
    """Returns the value of a move for the side that plays it.

    The value is the child's if the child has at least the edge's visits, otherwise the edge's.
    """
    after = board.copy(stack=False)
    after.push(move.move)
    kind, mate = terminal_kind(after), move.mate
    if mate and mate > 0:
        mate -= 1  # the moves that remain
    if kind != NOT_TERMINAL:
        return Value(1.0, 0) if kind == CHECKMATE else DRAW
    if after.halfmove_clock >= CLOCK_DRAW:
        return DRAW
    record = read(after)
    if record is not None and record.visits >= move.n:
        proof = record.proof_at(after.halfmove_clock)
        if mate is None and proof and proof.mate is not None:
            mate = moves_of(-proof.result, proof.mate)
        return Value(negate(node_mean(record)[0]), mate)
    if move.q is None:  # a proof that needed no visit
        return Value(node.q, mate)
    return Value(move.q, mate)


class Novelties:
    """Finds novelties against the games in a graph file."""

    def __init__(self, store: Store, digest: str) -> None:
        """`store`: the graph file. `digest`: SHA-256 of the reviewed PGN file.

        If the graph file has imported that PGN file, one game with each move is the reviewed game itself.
        """
        self._store = store
        self._own = sum(source.digest == digest for source in tables.sources(store) if source.kind == "pgn")

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
