"""Finds novelties, best moves of the search that few games have, and popular mistakes. Reads only."""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import chess
import numpy as np

from ..base.answer import Answer
from ..base.errors import CorruptRecordError, InvalidParameterError, UnknownPositionError, check_least
from ..position.board import check, decode_move, fen_of, key_text, key_text_of_words, pack, unpack
from ..position.notation import board_from_fen, play_moves, sans_of
from ..position.openings import opening_at
from ..position.values import cp_of, loss_of
from ..store.apart import ApartMoves
from ..store.file import sql_errors
from ..store.ranking import visits_of
from ..store.reading import Reader
from ..store.record import NodeRecord
from ..store.store import Store
from ..store.tables.books import book_keys, book_named, book_roots
from ..store.tables.games import games_by_move, games_played
from .diff import Most
from .routes import Met
from .source import Step, opened, steps_of
from .steps import Words, code_of, legal_codes, positions_after

AT_ONCE = 2000  # positions whose records are read together
LEVEL = 20_000  # positions that are followed together: 13 MB of moves

OnProgress = Callable[[int], None]  # positions found


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Thresholds for novelties and popular mistakes.

    Attributes:
      games: most games with a novelty, and most games that continued from the position after it.
      share: least share of its position's visits for the best move to qualify; ignored with `cp`.
      cp: other moves qualify too if they are at most so many centipawns worse than the best one.
      min_games: least games that continue from a position. min_visits: least node N of a position.
      move_visits: least edge N of a move: the value of fewer visits is unreliable.
      popular: least share of its position's games for a popular move.
      loss: least centipawns by which a popular move is worse than the best one.
    """

    games: int = 0
    share: float = 0.1
    cp: int | None = None
    min_games: int = 5
    min_visits: int = 100
    move_visits: int = 30
    popular: float = 0.1
    loss: int = 30

    def __post_init__(self) -> None:
        """Raises InvalidParameterError if a number is out of range."""
        for name in ("share", "popular"):
            if not 0 <= getattr(self, name) <= 1:
                raise InvalidParameterError(f"{name} must be from 0 to 1, not {getattr(self, name)}")
        check_least(0, games=self.games, cp=self.cp, loss=self.loss)
        check_least(1, min_games=self.min_games, min_visits=self.min_visits, move_visits=self.move_visits)


@dataclass(frozen=True, slots=True)
class NotableMove(Answer):
    """A move of the answer; values are seen by the side that plays it.

    Attributes:
      here: its position. visits: of all its moves there. best: the best move of the search.
      weight: of a novelty, games here times `n_share`; of a popular move, the points that games lost by Q.
    """

    json_keys = (
        "position start line move=step.move san=step.san best_move=best.move best_san=best.san"
        " games reached=here.games n=step.edge.n n_share q=step.edge.value cp=step.cp mate=step.mate"
        " best_cp=best.cp cost_cp weight"
    )

    here: Reached
    visits: int
    step: Step
    best: Step
    weight: float

    @property
    def position(self) -> str:
        """FEN of its position."""
        return fen_of(self.here.way.line())

    @property
    def start(self) -> str:
        """FEN of the first position of the walk."""
        return fen_of(self.here.way.line().root())

    @property
    def line(self) -> tuple[str, ...]:
        """The moves from there to its position, in SAN."""
        board = self.here.way.line()
        return sans_of(board.root(), board.move_stack)

    @property
    def games(self) -> int:
        """The number of games with the move."""
        return self.here.played.get(self.step.move.uci(), 0)

    @property
    def n_share(self) -> float:
        """The share of the move in the visits of all moves there."""
        return self.step.edge.n / self.visits

    @property
    def cost_cp(self) -> int:
        """Centipawns by which it is worse than the best move, at least 0."""
        return loss_of(cp_of(self.best.edge.value), cp_of(self.step.edge.value))


@dataclass(frozen=True, slots=True, kw_only=True)
class Novelties(Answer):
    """The answer of `novelties`.

    Attributes:
      start: FEN of the position, None for a book. problems: damage in the file that was skipped.
      reached: number of positions from which at least `min_games` games continued.
      judged: number of those that the graph holds with N of `min_visits` or more.
      novelties, popular: the moves, those of the largest weight first.
    """

    start: str | None
    book: str | None
    reached: int
    judged: int
    problems: tuple[str, ...]
    novelties: tuple[NotableMove, ...]
    popular: tuple[NotableMove, ...]


def novelties(
    path: str | os.PathLike[str],
    board: chess.Board | None = None,
    *,
    book: str | None = None,
    rules: Rules | None = None,
    top: int = 20,
    on_progress: OnProgress | None = None,
) -> Novelties:
    """Returns the best moves of the search that few games have, and popular moves that lose much.

    Args:
      board: first position: examines the positions that games passed from here on.
      book: instead, the name of a book: examines its positions, from its roots on.
      top: most moves of each kind.

    Raises:
      InvalidParameterError: if not one of `board` and `book` is given, a number is out of range, or there is
        no such book.
      UnknownPositionError: if too few imported games continued from there.
    """
    if (board is None) == (book is None):
        raise InvalidParameterError("name a position or a book, one of the two")
    within: Container[str] | None = None
    with opened(path) as source:
        if board is not None:
            check(board)
            roots = [board.copy(stack=False)]
        else:
            number = book_named(source.store, book).id
            roots = [_with_moves(board_from_fen(fen)) for fen in book_roots(source.store, number)]
            within = set(book_keys(source.store, number))
        judge = _Judge(source.store, rules or Rules(), top)
        walk = reached_below(source.store, roots, judge.rules.min_games, within, on_progress)
        with source.store.reader() as reader:
            while some := list(islice(walk, AT_ONCE)):
                judge.judge(some, reader)
        if not judge.reached:
            where = fen_of(board) if board else "the roots of this book"
            raise UnknownPositionError(
                f"{source.path} has fewer than {judge.rules.min_games} imported games that continue from"
                f" {where}; `graphsearch import` adds games, --min-games asks for fewer"
            )
    return Novelties(
        start=fen_of(board) if board else None,
        book=book,
        reached=judge.reached,
        judged=judge.judged,
        problems=tuple(reader.problems),
        novelties=tuple(judge.novelties.rows()),
        popular=tuple(judge.popular.rows()),
    )


def _with_moves(root: chess.Board) -> chess.Board:
    """Returns a root of a book with the moves from the start, if its opening has a name."""
    named, game = opening_at(root), chess.Board()
    play_moves(game, " ".join(named.line) if named else "")
    return game if named else root


class _Judge:
    """Finds novelties and popular mistakes; `reached`, `judged`: as of the answer."""

    def __init__(self, store: Store, rules: Rules, top: int) -> None:
        self._store, self._apart, self.rules = store, ApartMoves.of(store), rules
        self.novelties, self.popular = Most[NotableMove](top), Most[NotableMove](top)
        self.reached = self.judged = 0

    def judge(self, some: Sequence[Reached], reader: Reader) -> None:
        """Judges the moves of those positions that the graph holds with enough visits."""
        have, records = reader.find(np.array([reached.words for reached in some], np.uint64))
        places = np.flatnonzero(have).tolist()
        enough = np.flatnonzero(visits_of(records) >= self.rules.min_visits).tolist()
        self.reached += len(some)
        self.judged += len(enough)
        for i in sorted(enough, key=lambda i: -some[places[i]].games):
            here = some[places[i]]
            # the weight of a move is at most the games of its position
            if here.games > min(self.novelties.least, self.popular.least):
                self._judge(here, records.record(i))

    def _judge(self, here: Reached, record: NodeRecord) -> None:
        """Adds the novelties and popular mistakes of a position."""
        rules, most, board = self.rules, self.rules.cp, unpack(here.words)
        steps = steps_of(self._apart.completed(record, board), board)
        visits = sum(step.edge.n for step in steps)
        for step in (step for step in steps if step.edge.n >= rules.move_visits):
            found = NotableMove(here, visits, step, steps[0], 0.0)
            is_best = step is steps[0] and found.n_share >= rules.share
            if found.games > rules.games:
                lost = found.games * max(0.0, found.best.edge.value - step.edge.value) / 2
                if found.games >= rules.popular * here.games and found.cost_cp >= rules.loss:
                    self.popular.add(lost, replace(found, weight=lost))
            elif found.cost_cp <= most if most is not None else is_best:
                weight = here.games * found.n_share
                if weight <= self.novelties.least:
                    continue
                after = key_text(step.after())  # games may have reached it by another order
                if sum(games_played(self._store, after).values()) <= rules.games:
                    self.novelties.add(weight, replace(found, weight=weight))


# ------------------------------------------------------------------ the positions that games reached
@dataclass(frozen=True, slots=True)
class Reached:
    """A position that games passed; `games`: those that continued from it; `played`: by move in UCI."""

    words: Words
    key: str
    games: int
    played: dict[str, int]
    way: Met


_Here = tuple[Words, str, Met]  # packed, key, way


def reached_below(
    store: Store,
    roots: Sequence[chess.Board],
    least: int,
    within: Container[str] | None,
    on_progress: OnProgress | None,
) -> Iterator[Reached]:
    """Yields the positions below the roots that at least so many games passed, breadth first, each once.

    The walk also follows rarely played moves: games of different move orders may meet again after them. It
    stays within the positions of some keys, if given. Raises CorruptRecordError at an illegal move of a game.
    """
    fresh: list[_Here] = [(pack(board), key_text(board), Met.of(board)) for board in roots]
    met = {key for _, key, _ in fresh}
    often = "SELECT 1 FROM game_move GROUP BY key HAVING sum(white + draws + black + unknown) >= ?"
    with sql_errors(store.path, "read it"):  # the walk ends after the last position with so many games
        left = int(store.connection.execute(f"SELECT count(*) FROM ({often})", (least,)).fetchone()[0])  # noqa: S608
    while fresh and left:
        part, fresh = fresh[:LEVEL], fresh[LEVEL:]
        counts = games_by_move(store, [key for _, key, _ in part])
        found = [
            Reached(words, key, sum(played.values()), played, way)
            for words, key, way in part
            if (played := counts.get(key))
        ]
        enough = [reached for reached in found if reached.games >= least]
        left -= len(enough)
        yield from enough
        for child in _behind(store, found):
            if child[1] not in met and (within is None or child[1] in within):
                met.add(child[1])
                fresh.append(child)
        if on_progress:
            on_progress(len(met))


def _behind(store: Store, found: Sequence[Reached]) -> Iterator[_Here]:
    if not found:
        return
    of = np.array([i for i, reached in enumerate(found) for _ in reached.played], np.int64)
    codes = np.array([code_of(move) for reached in found for move in reached.played], np.uint16)
    words = np.array([reached.words for reached in found], np.uint64)
    counts, legal, _ = legal_codes(words)
    there = (legal[of] == codes[:, None]) & (np.arange(legal.shape[1]) < counts[of][:, None])
    wrong = np.flatnonzero(~there.any(axis=1))
    if len(wrong):
        where = found[int(of[wrong[0]])]
        raise CorruptRecordError(
            f"{store.path}: the table game_move has a move that is not legal in its position"
            f" ({where.key} {decode_move(int(codes[wrong[0]])).uci()})"
        )
    children, _ = positions_after(words, of, codes)
    for i, child, code in zip(of.tolist(), children, codes.tolist(), strict=True):
        yield child, key_text_of_words(child), Met(None, found[i].way, decode_move(code))
