"""The UCI evaluator: finds an engine's program and evaluates batches with its processes."""

from __future__ import annotations

import shlex
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

import numpy as np

from ...base.errors import InvalidParameterError
from ...position.board import fen_of
from ...store.record.provenance import EvaluatorIdentity
from ..protocol import Evaluation, Evaluator, PositionBatch
from .program import file_digest, find_program, interpreter_of, named_file
from .scores import WIN_CP, WIN_SCALE
from .settings import engine_options, read_options

if TYPE_CHECKING:
    import chess.engine

    from .engine import UciEngine
    from .pool import Configure

Part = Literal["both", "value", "policy"]
PARTS = ("both", "value", "policy")
NETWORK_OPTIONS = ("evalfile", "evalfilesmall", "weightsfile")  # options that name a network file
SHOWN_HEX = 16  # digits of the hash of such a file in the identity
SHOW_WDL, CHESS960 = "uci_showwdl", "uci_chess960"
MOVE_NUMBER = 32  # in the FEN for an engine, as a record has no move number

# names of the maps from scores to V and to P; rename a map when it changes
OWN_WDL = f"engine-wdl-at-move-{MOVE_NUMBER}"
CP_WDL = f"cp-logistic-{WIN_CP:g}-{WIN_SCALE:g}"
POLICY = "policy-lichess-cp"


class UciEvaluator(Evaluator):
    """Evaluates positions with any UCI engine.

    V is the last exact score of a search with one line, as WDL: the engine's own if it has the option
    UCI_ShowWDL, else by `scores.cp_wdl`. P is the softmax of the Q of all moves. Engines run in `workers`
    processes, until `close` or the end of the program.

    Attributes:
      identity: the program's hash, the engine's name, and the options and files that change results.
      settings: of the searches.
      program: the engine's program.
    """

    def __init__(self, program: str, options: Mapping[str, str] | None = None, part: Part = "both") -> None:
        """Starts an engine.

        Args:
          program: a name on PATH, a path, or a command line.
          options: of the searches (`settings.OWN`) and of the engine, as texts; case of the names is ignored.
            Those of an unused part are checked, but have no effect.
          part: `value`: uniform priors without a search; `policy`: V is a draw.

        Raises:
          EvaluatorError: if the program is missing, cannot be started, or is no UCI engine.
          InvalidParameterError: if neither has an option, or a value is invalid.
        """
        from .pool import EnginePool, Question

        if part not in PARTS:
            raise InvalidParameterError(f"part must be one of {', '.join(PARTS)}, not {part!r}")
        self.settings, given = read_options(options or {})
        self.program = find_program(program)
        self._part = part
        # one position for each engine; with several, a second one, so that fast engines do not idle
        self.batch_size = self.settings.workers * (2 if self.settings.workers > 1 else 1)
        question = Question(self.settings, value=part != "policy", policy=part != "value")
        label = self.program.label

        def configure(engine: UciEngine) -> chess.engine.ConfigMapping:
            return engine_options(engine.options, given, label)

        self._pool = EnginePool(self.program, configure, question, self.settings.workers)
        self._finalizer = weakref.finalize(self, self._pool.leave)
        try:
            engine = self._pool.first_engine()
            self._plays_chess960 = any(name.lower() == CHESS960 for name in engine.options)
            self.identity = self._identity(engine, configure)
        except BaseException:
            self.close()
            raise

    def evaluate(self, batch: PositionBatch) -> Evaluation:
        """Returns WDL and priors of every position.

        Raises:
          EvaluatorError: if an engine fails at a position and, after a restart, fails again; or if a position
            is Chess960 and the engine does not support it.
        """
        from .engine import failure

        positions = list(batch.boards())
        for board, _ in positions:
            if board.chess960 and not self._plays_chess960:
                what = "has no option UCI_Chess960: it cannot be asked about the Chess960 position"
                raise failure(self.program, f"{what} {fen_of(board)}")
            board.fullmove_number = MOVE_NUMBER
        answers = self._pool.answers(positions)
        wdl = np.array([answer.wdl.as_list() for answer in answers], np.float32).reshape(-1, 3)
        priors = [np.zeros(0), *(answer.priors for answer in answers)]
        return Evaluation(wdl, np.concatenate(priors).astype(np.float32))

    def processes(self) -> list[int]:
        """Returns the process ids of the running engines."""
        return self._pool.processes

    def close(self) -> None:
        """Ends the engines; the evaluator cannot be used afterwards."""
        self._finalizer()

    # ---------------------------------------------------------- identity
    def _identity(self, engine: UciEngine, configure: Configure) -> EvaluatorIdentity:
        set_options = configure(engine)
        options = {"engine": engine.name, **self._program_options(engine, set_options), **self._own_options()}
        options |= {name: value for name, value in set_options.items() if value is not None}
        shows_wdl = any(name.lower() == SHOW_WDL and on for name, on in set_options.items())
        value = OWN_WDL if shows_wdl else CP_WDL
        mapping = {"value": value, "policy": POLICY, "both": f"{value}, {POLICY}"}[self._part]
        return EvaluatorIdentity("uci", file_digest(self.program.path), options, mapping)

    def _own_options(self) -> dict[str, str | int | float | bool]:
        """Returns the settings of the searches that this evaluator's part uses."""
        found: dict[str, str | int | float | bool] = {"reproducible": self.settings.reproducible}
        if self._part != "both":
            found["part"] = self._part
        if self._part != "policy":
            name = "depth" if self.settings.depth else "nodes"
            found[name] = getattr(self.settings, name)
        if self._part != "value":
            found["policy_depth"] = self.settings.policy_depth
            found["PolicyTemperature"] = self.settings.policy_temperature
        return found

    def _program_options(
        self, engine: UciEngine, set_options: chess.engine.ConfigMapping
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
