"""The UCI evaluator: evaluates positions with short searches of an engine.

    V   one search with one line; its last exact score
    P   softmax(Q of every move / temperature); the Q of all moves from one search of all lines (MultiPV)

An engine with fewer lines than there are moves searches the position after each move instead. If an engine
fails, it is replaced, and the position tried once more.
"""

from __future__ import annotations

import shlex
import threading
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Literal

import chess
import numpy as np
from chess.engine import ConfigMapping, Limit
from numpy.typing import NDArray

from ...position.board import CHECKMATE, NOT_TERMINAL, fen_of, terminal_kind
from ...position.values import WDL
from ...store.provenance import EvaluatorIdentity
from ..protocol import Evaluation, Evaluator, PositionBatch
from .engine import EngineFailureError, UciEngine, failure
from .program import file_digest, find_program, interpreter_of, named_file
from .scores import (
    WIN_CP,
    WIN_SCALE,
    Score,
    a_move_earlier,
    best_known,
    parse_score,
    policy_q,
    scores_by_move,
    wdl_of,
)

Part = Literal["both", "value", "policy"]
NETWORK_OPTIONS = ("evalfile", "evalfilesmall", "weightsfile")  # options that name a network file
SHOWN_HEX = 16  # digits of the hash of such a file in the identity
SHOW_WDL, CHESS960 = "uci_showwdl", "uci_chess960"
MOVE_NUMBER = 32  # in the FEN for an engine, as a record has no move number
MOST_FAILURES = 2  # of engines at one position

# names of the maps from scores to V and to P; rename a map when it changes
OWN_WDL = f"engine-wdl-at-move-{MOVE_NUMBER}"
CP_WDL = f"cp-logistic-{WIN_CP:g}-{WIN_SCALE:g}"
POLICY = "policy-lichess-cp"

NEUTRAL = WDL(0.0, 1.0, 0.0)  # the value if only P is used
MATES, DRAWS = Score(0, mate=1), Score(0, wdl=(0, 1000, 0))  # moves that end the game
Moves = Sequence[chess.Move]


class UciEvaluator(Evaluator):
    """Evaluates positions with any UCI engine.

    V is the last exact score of a search with one line, as WDL: the engine's own if it has the option
    UCI_ShowWDL, else by `scores.cp_wdl`. P is the softmax of the Q of all moves. The engine runs until
    `close` or the end of the program.

    Attributes:
      identity: the program's hash, the engine's name, and the options and files that change results.
      program: the engine's program.
    """

    batch_size = 1

    def __init__(
        self,
        program: str,
        *,
        part: Part = "both",
        nodes: int = 1000,
        depth: int = 0,
        policy_depth: int = 6,
        temperature: float = 0.08,
        timeout: float = 30.0,
        reproducible: bool = False,
        options: Mapping[str, str] | None = None,
    ) -> None:
        """Starts an engine.

        Args:
          program: a name on PATH, a path, or a command line.
          part: `value`: uniform priors without a search; `policy`: V is a draw.
          nodes: limit of the search for V. depth: its limit instead of `nodes`; 0 for none.
          policy_depth: depth of the search for P.
          temperature: P is the softmax of the moves' Q divided by it.
          timeout: seconds for one search, and for the answer to `uci`.
          reproducible: start a new game for each position: results do not depend on earlier positions.
          options: of the engine; case of the names is ignored.

        Raises:
          EvaluatorError: if the program is missing, cannot be started, or is no UCI engine.
          InvalidParameterError: if the engine does not have an option, or a value is invalid.
        """
        self.program = find_program(program)
        self._part, self._timeout, self._reproducible = part, timeout, reproducible
        self._nodes, self._depth = nodes, depth
        self._policy_depth, self._temperature = policy_depth, temperature
        self._options = options or {}
        self._batch = threading.Lock()  # one at a time
        self._engines: list[UciEngine] = []  # the running one, or none
        self._finalizer = weakref.finalize(self, _end, self._engines)
        self._name = ""
        try:
            engine = self._running()
            self._name = engine.name
            self._plays_chess960 = any(name.lower() == CHESS960 for name in engine.options)
            self.identity = self._identity(engine)
        except EngineFailureError as error:
            raise failure(self.program, str(error)) from None
        except BaseException:
            self.close()
            raise

    def evaluate(self, batch: PositionBatch) -> Evaluation:
        """Returns WDL and priors of every position.

        Raises:
          EvaluatorError: if an engine fails at a position and, after a restart, fails again; or if a position
            is Chess960 and the engine does not support it.
        """
        positions = list(batch.boards())
        for board, _ in positions:
            if board.chess960 and not self._plays_chess960:
                what = "has no option UCI_Chess960: it cannot be asked about the Chess960 position"
                raise failure(self.program, f"{what} {fen_of(board)}")
            board.fullmove_number = MOVE_NUMBER
        with self._batch:
            answers = [self._answer(board, moves) for board, moves in positions]
        wdl = np.array([value.as_list() for value, _ in answers], np.float32).reshape(-1, 3)
        priors = [np.zeros(0), *(of_moves for _, of_moves in answers)]
        return Evaluation(wdl, np.concatenate(priors).astype(np.float32))

    def close(self) -> None:
        """Ends the engine; the evaluator cannot be used afterwards."""
        self._finalizer()

    # ---------------------------------------------------------- the engine
    def _running(self) -> UciEngine:
        """Returns the engine, started if necessary.

        Raises:
          EngineFailureError: if it cannot be started, or has another name than before: results of different
            engines must not be mixed.
        """
        if not self._engines:
            started = UciEngine(self.program, self._options, seconds=self._timeout)
            self._engines.append(started)
            if not self._finalizer.alive:  # `close` may have come before
                raise EngineFailureError("was closed")
            if self._name not in ("", started.name):
                raise EngineFailureError(f"calls itself {started.name!r} now, not {self._name!r} as before")
        return self._engines[0]

    def _answer(self, board: chess.Board, moves: Moves) -> tuple[WDL, NDArray[np.float64]]:
        """Returns the WDL and the priors of a position; starts another engine if one fails."""
        did: list[str] = []
        while len(did) < MOST_FAILURES:
            if not self._finalizer.alive:
                raise failure(self.program, "was closed")
            try:
                engine = self._running()
                if self._reproducible:
                    engine.new_game()
                return self._value(engine, board, moves), self._priors(engine, board, moves)
            except EngineFailureError as error:
                did.append(str(error))
            _end(self._engines, failed=True)
        if not self._finalizer.alive:
            raise failure(self.program, "was closed")
        first, second = did
        board = board.copy(stack=False)
        board.fullmove_number = 1  # that of the evaluator is for engines only
        again = ", and so it did once restarted" if second == first else f", and, restarted, {second}"
        raise failure(self.program, f"{first}{again}; position {fen_of(board)}")

    # ---------------------------------------------------------- V
    def _value(self, engine: UciEngine, board: chess.Board, moves: Moves) -> WDL:
        if self._part == "policy":
            return NEUTRAL
        limit = Limit(depth=self._depth) if self._depth else Limit(nodes=self._nodes)
        score = self._score(engine, board, limit)
        if score is None and len(moves) == 1:  # some engines play a forced move without a search
            score = self._after(engine, board, moves[0], limit)
        if score is None:
            raise EngineFailureError("gave no score")
        return wdl_of(score)

    def _score(self, engine: UciEngine, board: chess.Board, limit: Limit) -> Score | None:
        lines = engine.search(board, limit, seconds=self._timeout)
        return best_known(filter(None, map(parse_score, lines)))

    def _after(self, engine: UciEngine, board: chess.Board, move: chess.Move, limit: Limit) -> Score:
        """Returns the score of a move: by the rules if it ends the game, else by a search after it."""
        child = board.copy(stack=False)
        child.push(move)
        if (kind := terminal_kind(child)) != NOT_TERMINAL:
            return MATES if kind == CHECKMATE else DRAWS
        score = self._score(engine, child, limit)
        if score is None:
            raise EngineFailureError(f"gave no score for the position after {move.uci()}")
        return a_move_earlier(score)

    # ---------------------------------------------------------- P
    def _priors(self, engine: UciEngine, board: chess.Board, moves: Moves) -> NDArray[np.float64]:
        """Returns the priors of a position's moves, from one search of all lines if the engine has so many.

        Each other move is searched alone, one ply less deep.
        """
        if self._part == "value" or len(moves) == 1:
            return np.full(len(moves), 1 / len(moves))
        scores = dict[str, Score]()
        if len(moves) <= engine.most_lines:
            limit = Limit(depth=self._policy_depth)
            found = engine.search(board, limit, seconds=self._timeout, lines=len(moves))
            scores = scores_by_move(found)
        limit = Limit(depth=max(1, self._policy_depth - 1))
        q = [policy_q(scores.get(move.uci()) or self._after(engine, board, move, limit)) for move in moves]
        return softmax(np.array(q), self._temperature)

    # ---------------------------------------------------------- identity
    def _identity(self, engine: UciEngine) -> EvaluatorIdentity:
        set_options = engine.set_options
        options = {"engine": engine.name, **self._program_options(engine, set_options), **self._own_options()}
        options |= {name: value for name, value in set_options.items() if value is not None}
        shows_wdl = any(name.lower() == SHOW_WDL and on for name, on in set_options.items())
        value = OWN_WDL if shows_wdl else CP_WDL
        mapping = {"value": value, "policy": POLICY, "both": f"{value}, {POLICY}"}[self._part]
        return EvaluatorIdentity("uci", file_digest(self.program.path), options, mapping)

    def _own_options(self) -> dict[str, str | int | float | bool]:
        """Returns the settings of the searches that this evaluator's part uses."""
        found: dict[str, str | int | float | bool] = {"reproducible": self._reproducible}
        if self._part != "both":
            found["part"] = self._part
        if self._part != "policy":
            found["depth" if self._depth else "nodes"] = self._depth or self._nodes
        if self._part != "value":
            found["policy_depth"] = self._policy_depth
            found["PolicyTemperature"] = self._temperature
        return found

    def _program_options(
        self, engine: UciEngine, set_options: ConfigMapping
    ) -> dict[str, str | int | float | bool]:
        """Returns identity options beyond the program's hash: arguments, a script's interpreter, files."""
        program, found = self.program, dict[str, str | int | float | bool]()
        if program.arguments:
            found["arguments"] = shlex.join(program.arguments)
        if interpreter := interpreter_of(program.path):
            found["interpreter"] = interpreter
        files = {
            f"argument {number}": named_file(text.rpartition("=")[2], program, given=True)
            for number, text in enumerate(program.arguments, 1)
        }
        for name, option in engine.options.items():
            if name.lower() in NETWORK_OPTIONS:
                value = str(set_options.get(name, option.default))
                files[name] = named_file(value, program, given=name in set_options)
        found |= {f"{name} sha256": file_digest(path)[:SHOWN_HEX] for name, path in files.items() if path}
        return found


def _end(engines: list[UciEngine], *, failed: bool = False) -> None:
    """Ends the engines, also while another thread does so; those that have failed get no `quit`."""
    with suppress(IndexError):
        while True:
            engine = engines.pop()
            engine.kill() if failed else engine.quit()


def softmax(q: NDArray[np.float64], temperature: float) -> NDArray[np.float64]:
    """Returns `exp(q / temperature)`, normalised to sum 1.

    >>> softmax(np.array([0.1, 0.1]), 0.1).tolist()
    [0.5, 0.5]
    """
    weights = np.exp((q - q.max()) / temperature)
    return np.asarray(weights / weights.sum())
