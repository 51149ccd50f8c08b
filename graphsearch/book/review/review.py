"""Reviews a file of games: searches all games, then judges and writes them.

    file -> chosen games -> positions, game by game, last to first -> graph file
    file -> chosen games -> records of the graph -> judgements -> PGN, JSON, figures

The output depends only on the graph file: a repeated command searches nothing and writes the same output.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import chess
import chess.engine
import chess.pgn

from ...base.errors import ImportFileError, InvalidParameterError
from ...base.limits import WHOLE
from ...base.version import __version__
from ...evaluators.factory import EvaluatorSpec
from ...evaluators.protocol import Evaluator
from ...exchange.importing import Problem
from ...exchange.output import Target, check_target, new_output
from ...exchange.pgn_writing import COLUMNS, header
from ...exchange.sources import FileProgress, GivenFile, Input, opened
from ...position.openings import Opening
from ...position.pgn import read_game
from ...search.params import Limits, SearchParams
from ...search.results import Progress
from ...store.store import Store
from .formulas import GLYPHS
from .games import GameChoice, SourceGame, UnreadableGameError, source_game, wanted_games
from .judging import Novelties, judge
from .results import GameReview, MoveReview, ReviewReport
from .sessions import PositionSearcher, SearchSettings, Session, before, open_session

LEAST_VISITS = 10  # of a position; fewer are too few to judge its moves
SAY_SECONDS = 0.2
NAMES_SHOWN = 5  # of players, in the message that no player has the given name
OnProgress = Callable[[FileProgress], object]
OnGame = Callable[[GameReview], object]
OnProblem = Callable[[Problem], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewSettings:
    """The settings of a review.

    Attributes:
      visits: of every position, 10 or more; None: no such limit. choice: of the games.
      evaluations, seconds: limits of the search of a position.
      pgn: target of the annotated games; None: not written.
      bare: whether to drop variations, comments and glyphs of the source.
      params: of the searches.
      workers, pool: processes that search, as for `search.detached.open_searches`; None: this one.
    """

    visits: int | None = 1000
    evaluations: int | None = None
    seconds: float | None = None
    choice: GameChoice = field(default_factory=GameChoice)
    pgn: Target | None = None
    bare: bool = False
    params: SearchParams = field(default_factory=SearchParams)
    workers: int | None = None
    pool: str | None = None

    def __post_init__(self) -> None:
        if self.visits is not None and not LEAST_VISITS <= self.visits <= WHOLE.most:
            raise InvalidParameterError(f"visits must be at least {LEAST_VISITS}, not {self.visits:,}")

    @property
    def limits(self) -> Limits:
        """The limits of each position."""
        return Limits(visits=self.visits, evaluations=self.evaluations, seconds=self.seconds)


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
    stop = stop or threading.Event()
    work = _Review(Path(path), settings, stop, on_progress, on_game)
    started = time.monotonic()

    def look_at_stop() -> None:
        if stop.is_set():
            raise _StoppedError

    def on_bytes(done: int, total: int) -> None:
        look_at_stop()
        work.report_progress("Reading", given.name, done, total)

    work.report.name = given.name
    try:
        with opened(given, work.path.absolute().parent, on_bytes, look_at_stop) as file:
            check_target(settings.pgn, store=work.path, source=None if given.stream else Path(given.name))
            work.count(file)
            with open_session(work.path, evaluator, work.common, ram_bytes=ram_bytes) as session:
                work.do(session, file)
    except _StoppedError:
        work.report.stopped = True
    work.report.seconds = time.monotonic() - started
    return work.report


class _StoppedError(Exception):
    """The user has stopped the review."""


class _Review:
    def __init__(
        self,
        path: Path,
        settings: ReviewSettings,
        stop: threading.Event,
        on_progress: OnProgress | None,
        on_game: OnGame | None,
    ) -> None:
        self.path = path
        self.report = ReviewReport("", str(path), settings.visits, settings.choice)
        self.common = SearchSettings(
            limits=settings.limits,
            params=settings.params,
            stop=stop,
            note=self.report.notes.append,
            workers=settings.workers,
            pool=settings.pool,
        )
        self._settings = settings
        self._stop = stop
        self._on_progress = on_progress
        self._on_game = on_game
        self._said_at = 0.0
        self._positions = 0  # of the chosen games

    # ---------------------------------------------------------- reading
    def count(self, file: Input) -> None:
        """Counts the chosen games and their positions, for the progress.

        Raises:
          InvalidParameterError: if there are none.
          ImportFileError: if the file has no games.
        """
        names: list[str] = []

        def note(headers: dict[str, str]) -> None:
            self.report.all += 1
            if len(names) < NAMES_SHOWN:
                names.extend(headers[side] for side in ("White", "Black") if headers.get(side))

        for _, game in wanted_games(file.lines(), self._settings.choice, on_headers=note):
            self.report.chosen += 1
            self._positions += len(read_game(game).moves) + 1
        if not self.report.all:
            raise ImportFileError(f"{file.name} has no games")
        if not self.report.chosen:
            raise InvalidParameterError(self._nothing(file.name, names))

    def _nothing(self, name: str, names: list[str]) -> str:
        known = (
            f"; players there are {', '.join(dict.fromkeys(names))}" if self._settings.choice.player else ""
        )
        return f"none of the {self.report.all:,} games of {name} is of {self._settings.choice}{known}"

    def _games(self, file: Input, leave_out: OnProblem | None = None) -> Iterator[SourceGame]:
        """Yields the readable chosen games; calls `leave_out` for the others."""
        file.rewind()
        for number, text in wanted_games(file.lines(), self._settings.choice):
            try:
                yield source_game(number, text, bare=self._settings.bare)
            except UnreadableGameError as error:
                if leave_out:
                    leave_out(Problem(error.line, error.reason))

    def _leave_out(self, why: Problem) -> None:
        """Adds a game that cannot be reviewed to the report."""
        self.report.skipped += 1
        self.report.problems.append(why)

    # ---------------------------------------------------------- working
    def do(self, session: Session, file: Input) -> None:
        """Searches, judges and writes."""
        self._search(session, file)
        if self._stop.is_set():
            raise _StoppedError
        if self.report.chosen > self.report.skipped:
            self._write(session, file)

    def _search(self, session: Session, file: Input) -> None:
        report, began, at = self.report, time.monotonic(), ""

        def on_progress(now: Progress | None) -> None:
            self._say_visits(searcher, at, now, began)

        def positions() -> Iterator[tuple[None, chess.Board]]:
            nonlocal at
            for game in self._games(file, self._leave_out):
                report.notes += [f"game {game.number}: {note}" for note in game.notes]
                for board in before(game.last_board()):
                    at = f"game {game.number}, {game.name}, ply {len(board.move_stack)}"
                    on_progress(None)
                    yield None, board

        searcher = PositionSearcher(
            session, self.common, on_progress=on_progress if self._on_progress else None
        )
        try:
            for _ in searcher.run(positions()):
                on_progress(None)
            session.finish()
        finally:
            report.searched, report.known = searcher.searched, searcher.known
            report.new_visits, report.evaluations = searcher.visits, searcher.evaluations

    def _write(self, session: Session, file: Input) -> None:
        with ExitStack() as files, Store.open(self.path, read_only=True) as store:
            output = self._output(files, store)
            novelties = Novelties(store, file.digest)
            for game in self._games(file):
                if self._stop.is_set():
                    raise _StoppedError
                found = judge(session.read, game, novelties.find(game))
                self.report.reviewed += 1
                self.report.players.add(found)
                self.report_progress("Writing", game.name, self.report.reviewed, self.report.chosen)
                if output is not None:
                    output.add(game, found)
                if self._on_game:
                    self._on_game(found)
        if isinstance(self._settings.pgn, (str, os.PathLike)):
            self.report.output = str(self._settings.pgn)

    def _output(self, files: ExitStack, store: Store) -> PgnOutput | None:
        if self._settings.pgn is None:
            return None
        out = files.enter_context(new_output(self._settings.pgn, store=self.path))
        return PgnOutput(out, limits=self._settings.limits, evaluator=store.identity.kind)

    # ---------------------------------------------------------- progress
    def report_progress(
        self, stage: str, name: str, done: int, total: int, count: int = 0, rate: float = 0.0
    ) -> None:
        """Reports the progress, at most every `SAY_SECONDS`."""
        now = time.monotonic()
        if self._on_progress and now - self._said_at >= SAY_SECONDS:
            self._said_at = now
            self._on_progress(FileProgress(stage, name, done, total, count, rate))

    def _say_visits(self, searcher: PositionSearcher, name: str, now: Progress | None, began: float) -> None:
        """Reports the progress of the searches; `now`: of the current position, None between two."""
        unit, visits = self._settings.visits or 1, searcher.visits
        done = (searcher.searched + searcher.known) * unit
        if now is not None:
            done += (min(now.visits, unit) if self._settings.visits else 0) - unit
            visits += now.new_visits
        total, rate = self._positions * unit, visits / max(time.monotonic() - began, 1e-9)
        self.report_progress("Searching", name, done, total, visits, rate)


NAG_OF = {glyph: nag for nag, glyph in GLYPHS.items()}
JUDGEMENTS = frozenset(range(1, 8))  # NAGs that judge a move: one is enough
NOVELTY = chess.pgn.NAG_NOVELTY
_OWN = re.compile(r"(?:; )?graphsearch [^;]*")


class PgnOutput:
    """Writes games to a stream, one at a time."""

    def __init__(self, out: BinaryIO, *, limits: Limits, evaluator: str) -> None:
        """`limits`, `evaluator`: for the header Annotator."""
        self._out = out
        self._annotator = f"graphsearch {__version__}, {evaluator.replace(';', ',')}, {limits_text(limits)}"
        self._first = True

    def add(self, game: SourceGame, review: GameReview) -> None:
        """Writes a game, after adding the review to its tree."""
        annotate(game.tree, review)
        if not self._first:
            self._out.write(b"\n")
        self._first = False
        for name, value in self._headers(game, review.opening):
            self._out.write(header(name, value))
        game.tree.headers["Result"] = game.result
        text = game.tree.accept(chess.pgn.StringExporter(columns=COLUMNS, headers=False))
        self._out.write(b"\n" + text.strip().encode() + b"\n")

    def _headers(self, game: SourceGame, opening: Opening | None) -> Iterator[tuple[str, str]]:
        yield from ((name, value) for name, value in game.headers.items() if name != "Annotator")
        for name, value in (("ECO", opening.eco), ("Opening", opening.name)) if opening else ():
            if name not in game.headers:
                yield name, value
        before = _OWN.sub("", game.headers.get("Annotator", "")).strip("; ")
        yield "Annotator", f"{before}; {self._annotator}" if before else self._annotator


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
        node.set_eval(_score(move.cp, move.mate))
        if move.glyph and not node.nags & JUDGEMENTS:
            node.nags.add(NAG_OF[move.glyph])
        if move.novelty is not None and NOVELTY not in node.nags:
            node.nags.add(NOVELTY)
            node.comment = f"{node.comment} N, after {_games(move.novelty)}".strip()
        if move.loss and move.glyph:
            _add_better(node.parent, move)


def _games(number: int) -> str:
    return f"{number:,} game{'' if number == 1 else 's'}"


def _add_better(node: chess.pgn.GameNode, move: MoveReview) -> None:
    """Adds the better line as a variation; if one has its first move, adds only an evaluation there."""
    known = next((one for one in node.variations[1:] if one.move.uci() == move.best), None)
    first = known or node.add_variation(chess.Move.from_uci(move.best))
    if known is None:
        end, board = first, first.board()
        for san in move.best_line[1:]:
            end = end.add_variation(board.push_san(san))
    if known is None or known.eval() is None:
        first.set_eval(_score(move.best_cp, move.best_mate))


def _score(cp: int, mate: int | None) -> chess.engine.PovScore | None:
    """Returns an evaluation seen by White; None for a mate on the board, which needs none."""
    score = chess.engine.Cp(cp) if mate is None else chess.engine.Mate(mate)
    return None if mate == 0 else chess.engine.PovScore(score, chess.WHITE)
