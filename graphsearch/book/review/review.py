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
from typing import Any, BinaryIO

import chess
import chess.engine
import chess.pgn

from ...base.answer import picked, plain
from ...base.errors import ImportFileError, InvalidParameterError
from ...base.limits import WHOLE
from ...base.version import __version__
from ...evaluators.factory import EvaluatorSpec
from ...evaluators.protocol import Evaluator
from ...exchange.importing import FileProgress, GivenFile, Input, opened
from ...exchange.output import Target, check_target, new_output
from ...exchange.pgn_writing import COLUMNS, header
from ...position.openings import Opening
from ...position.pgn import read_game
from ...search.params import Limits
from ...search.results import Progress
from ...store.store import Store
from .games import GameChoice, SourceGame, source_game, wanted_games
from .judging import GLYPHS, GameReview, MoveReview, Novelties, Players, judge
from .sessions import SearchSettings, Session, Work, before, open_session

LEAST_VISITS = 10  # of a position; fewer are too few to judge its moves
SAY_SECONDS = 0.2
NAMES_SHOWN = 5  # of players, in the message that no player has the given name
OnProgress = Callable[[FileProgress], object]
OnGame = Callable[[GameReview], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewSettings(SearchSettings):
    """The settings of a review; `limits` allow 10 visits of a position or more, or name no visits.

    Attributes:
      choice: of the games. pgn: target of the annotated games; None: not written.
      bare: whether to drop variations, comments and glyphs of the source.
    """

    limits: Limits = field(default_factory=lambda: Limits(visits=1000))
    choice: GameChoice = field(default_factory=GameChoice)
    pgn: Target | None = None
    bare: bool = False

    def __post_init__(self) -> None:
        visits = self.limits.visits
        if visits is not None and not LEAST_VISITS <= visits <= WHOLE.most:
            raise InvalidParameterError(f"visits must be at least {LEAST_VISITS}, not {visits:,}")


@dataclass(slots=True, kw_only=True)
class ReviewReport(Work):
    """The report of a review; when it was stopped, no output is written.

    Attributes:
      name: of the PGN file. store: of the graph file. visits: of every position, None without this limit.
      chosen: number of chosen games; all: number of games read from the file.
      reviewed, skipped: numbers of chosen games that were judged, and that could not be.
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
    stop = stop or threading.Event()
    work = _Review(Path(path), given.name, settings, stop, on_progress, on_game)
    started = time.monotonic()

    def look_at_stop() -> None:
        if stop.is_set():
            raise _StoppedError

    def on_bytes(done: int, total: int) -> None:
        look_at_stop()
        work.report_progress("Reading", given.name, done, total)

    try:
        with opened(given, work.path.absolute().parent, on_bytes, look_at_stop) as file:
            check_target(settings.pgn, store=work.path, source=None if given.stream else Path(given.name))
            work.count(file)
            with open_session(
                work.path, evaluator, settings, stop, work.report, ram_bytes=ram_bytes
            ) as session:
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
        name: str,
        settings: ReviewSettings,
        stop: threading.Event,
        on_progress: OnProgress | None,
        on_game: OnGame | None,
    ) -> None:
        self.path = path
        visits, choice = settings.limits.visits, settings.choice
        self.report = ReviewReport(name=name, store=str(path), visits=visits, choice=choice)
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

    def _games(self, file: Input, *, first: bool) -> Iterator[SourceGame]:
        """Yields the readable chosen games; the `first` time, it notes the others in the report."""
        file.rewind()
        for number, text in wanted_games(file.lines(), self._settings.choice):
            game = source_game(number, text, bare=self._settings.bare)
            if isinstance(game, SourceGame):
                yield game
            elif first:
                self.report.skipped += 1
                self.report.problems.append(game)

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

        def show(now: Progress | None) -> None:
            self._say_visits(at, now, began)

        def positions() -> Iterator[tuple[None, chess.Board]]:
            nonlocal at
            for game in self._games(file, first=True):
                report.notes += [f"game {game.number}: {note}" for note in game.notes]
                for board in before(game.last_board()):
                    at = f"game {game.number}, {game.name}, ply {len(board.move_stack)}"
                    show(None)
                    yield None, board

        for _ in session.run(positions(), on_progress=show if self._on_progress else None):
            show(None)
        session.finish()

    def _write(self, session: Session, file: Input) -> None:
        with ExitStack() as files, Store.open(self.path, read_only=True) as store:
            output = self._output(files, store)
            novelties = Novelties(store, file.digest)
            for game in self._games(file, first=False):
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

    def _say_visits(self, name: str, now: Progress | None, began: float) -> None:
        """Reports the progress of the searches; `now`: of the current position, None between two."""
        unit, report = self.report.visits or 1, self.report
        done, visits = (report.searched + report.known) * unit, report.new_visits
        if now is not None:
            done += (min(now.visits, unit) if report.visits else 0) - unit
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
