"""A reviewed game as PGN: evaluations, marks, better lines and the novelty, added to the source's notes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO

import chess
import chess.engine
import chess.pgn

from ...exchange.pgn_writing import COLUMNS, header
from ...position.values import shown_score_type
from ...version import __version__
from .formulas import GLYPHS
from .games import SourceGame
from .results import GameReview, MoveReview
from .review_report import ReviewReport

NAG_OF = {glyph: nag for nag, glyph in GLYPHS.items()}
JUDGEMENTS = frozenset(range(1, 8))  # NAGs that judge a move: one is enough
NOVELTY = chess.pgn.NAG_NOVELTY
_OWN = re.compile(r"(?:; )?graphsearch [^;]*")


class PgnOutput:
    """Writes games to a stream, one after the other."""

    def __init__(self, out: BinaryIO, *, visits: int, evaluator: str) -> None:
        """Takes the stream, and the values for the header Annotator."""
        self._out = out
        self._annotator = f"graphsearch {__version__}, {evaluator.replace(';', ',')}, {visits} visits"
        self._first = True

    def add(self, game: SourceGame, review: GameReview) -> None:
        """Writes a game, after adding the review to its tree."""
        annotate(game.tree, review)
        if not self._first:
            self._out.write(b"\n")
        self._first = False
        for name, value in self._headers(game):
            self._out.write(header(name, value))
        game.tree.headers["Result"] = game.result
        text = game.tree.accept(chess.pgn.StringExporter(columns=COLUMNS, headers=False))
        self._out.write(b"\n" + text.strip().encode() + b"\n")

    def finish(self, report: ReviewReport) -> None:
        """Does nothing: every game is complete in the file."""

    def _headers(self, game: SourceGame) -> Iterator[tuple[str, str]]:
        ours = {"Annotator", "ScoreType"}
        yield from ((name, value) for name, value in game.headers.items() if name not in ours)
        before = _OWN.sub("", game.headers.get("Annotator", "")).strip("; ")
        yield "Annotator", f"{before}; {self._annotator}" if before else self._annotator
        yield "ScoreType", shown_score_type()  # of [%eval]


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
    """Adds the better line as a variation; an existing one with its first move gets only an evaluation."""
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
    if mate == 0:
        return None
    return chess.engine.PovScore(
        chess.engine.Cp(cp) if mate is None else chess.engine.Mate(mate), chess.WHITE
    )
