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
from typing import Any

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
    work = _Review(Path(path), given.name, settings, stop or threading.Event(), on_progress, on_game)
    started = time.monotonic()

    def on_bytes(done: int, total: int) -> None:
        work.look_at_stop()
        work.show("Reading", given.name, done, total)

    try:
        with opened(given, work.path.absolute().parent, on_bytes, work.look_at_stop) as file:
            check_target(settings.pgn, store=work.path, source=None if given.stream else Path(given.name))
            work.count(file)
            with open_session(
                work.path, evaluator, settings, work.stop, work.report, ram_bytes=ram_bytes
            ) as session:
                work.search(session, file)
                work.look_at_stop()
                if work.report.chosen > work.report.skipped:
                    work.write(session, file)
    except _StoppedError:
        work.report.stopped = True
    work.report.seconds = time.monotonic() - started
    return work.report


class _StoppedError(Exception):
    """The user has stopped the review."""


@dataclass(slots=True)
class _Review:
    """One call of `review`; `positions`: number of those of the chosen games."""

    path: Path
    name: str
    settings: ReviewSettings
    stop: threading.Event
    on_progress: OnProgress | None
    on_game: OnGame | None
    report: ReviewReport = field(init=False)
    positions: int = 0
    shown_at: float = 0.0

    def __post_init__(self) -> None:
        visits, choice = self.settings.limits.visits, self.settings.choice
        self.report = ReviewReport(name=self.name, store=str(self.path), visits=visits, choice=choice)

    def look_at_stop(self) -> None:
        """Ends the review if the user has stopped it."""
        if self.stop.is_set():
            raise _StoppedError

    # ---------------------------------------------------------- reading
    def count(self, file: Input) -> None:
        """Counts the chosen games and their positions, for the progress.

        Raises:
          InvalidParameterError: if there are none.
          ImportFileError: if the file has no games.
        """
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
                for board in before(game.last_board()):
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
            novelties = Novelties(store, file.digest)
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
        first.set_eval(_score(move.best_value.cp, move.best_value.mate))


def _score(cp: int, mate: int | None) -> chess.engine.PovScore | None:
    """Returns an evaluation seen by White; None for a mate on the board, which needs none."""
    score = chess.engine.Cp(cp) if mate is None else chess.engine.Mate(mate)
    return None if mate == 0 else chess.engine.PovScore(score, chess.WHITE)
