"""`uci:PROGRAM`: evaluates positions with short searches of any UCI engine, by python-chess.

    V   one search with one line; its last exact score
    P   softmax(Q of every move / temperature); the Q of all moves from one search of all lines (MultiPV)

An engine with fewer lines than there are moves searches the position after each move instead. If an engine
fails, it is replaced, and the position tried once more.

Lines with a score stay text until the search has ended: with 30 lines per depth, parsing them all into moves
takes as long as the engine's search.

    info depth 7 multipv 2 score cp 31 lowerbound wdl 60 935 5 nodes 812 pv e2e4 e7e5
                                 |  |             |                          |
                                 centipawns,      UCI_ShowWDL, per mille     the scored move
                                 exact unless a bound follows

All values are seen by the side to move.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import shlex
import signal
import threading
import weakref
from collections import deque
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import Any, TypeVar

import chess
import chess.engine
import numpy as np
from chess.engine import ConfigMapping, Limit
from numpy.typing import NDArray

from ...base.errors import EvaluatorError, InvalidParameterError
from ...base.system import end_tree, ending_with_parent, own_group
from ...position.board import CHECKMATE, NOT_TERMINAL, after, fen_of, terminal_kind
from ...position.values import WDL, wdl_from_q
from ...store.provenance import EvaluatorIdentity, Option
from ..factory import SHOWN_HEX, UCI, Part, truth
from ..protocol import Evaluation, Evaluator, PositionBatch
from .program import Program, file_digest, find_program, interpreter_of, named_file

# -------------------------------------------------------------------------- scores
# V of engines without WDL: win is sigmoid((cp - WIN_CP) / WIN_SCALE), loss the same of -cp. Fitted by hand
# once, to reference WDL, from the cp of Toga II 3.0, Glaurung 2.2 and Ethereal 12.00. Its cross-entropy is
# 0.233, that of Stockfish 14's model at move 32 is 0.246, that of lc0's cp with 70 % draws 0.325.
WIN_CP = 110.0
WIN_SCALE = 40.0

# P: Q = 2 sigmoid(POLICY_SLOPE * cp) - 1, lichess's formula. WDL is flat near equality, where most moves are:
# priors from it are further from the reference at any temperature (docs/contributing/benchmarks.md).
POLICY_SLOPE = 0.00368208

MOST_CERTAIN = 0.99  # largest |Q| without a mate
MATE_STEP = 1e-4  # of Q for each move to the mate
MATE_MOVES = 99  # longer mates have the same Q


@dataclass(frozen=True, slots=True)
class Score:
    """One score of one line.

    Attributes:
      cp: centipawns; meaningless for a mate. mate: moves to it, negative if the side to move is mated.
      wdl: per mille. is_exact: False for a bound. depth: plies, as the engine counts them; 0 if unknown.
      move: UCI; empty if the line has no pv.
    """

    cp: int
    mate: int | None = None
    wdl: tuple[int, int, int] | None = None
    is_exact: bool = True
    depth: int = 0
    move: str = ""


def parse_score(line: str) -> Score | None:
    """Parses the score of an `info` line; returns None if it has none, or an invalid one.

    >>> parse_score("info depth 5 score cp -7 upperbound nodes 100 pv e2e4 e7e5")
    Score(cp=-7, mate=None, wdl=None, is_exact=False, depth=5, move='e2e4')
    >>> parse_score("info depth 2 score mate -1 wdl 0 0 1000").mate
    -1
    >>> parse_score("info string depth 3 score cp 8") is parse_score("info score cp high") is None
    True
    """
    words = line.split()
    end = words.index("pv") if "pv" in words else len(words)
    head = words[1:end]
    if "string" in head or "score" not in head:
        return None
    try:
        at = head.index("score")
        unit, number = head[at + 1], int(head[at + 2])
        if unit not in ("cp", "mate"):
            return None
        return Score(
            cp=number if unit == "cp" else 0,
            mate=number if unit == "mate" else None,
            wdl=_wdl(head),
            is_exact="lowerbound" not in head and "upperbound" not in head,
            depth=int(head[head.index("depth") + 1]) if "depth" in head else 0,
            move=words[end + 1].lower() if end + 1 < len(words) else "",  # some write e7e8Q
        )
    except (ValueError, IndexError):
        return None


def _wdl(head: list[str]) -> tuple[int, int, int] | None:
    if "wdl" not in head:
        return None
    at = head.index("wdl")
    win, draw, loss = (int(word) for word in head[at + 1 : at + 4])
    return (win, draw, loss) if min(win, draw, loss) >= 0 and win + draw + loss > 0 else None


def best_known(scores: Iterable[Score]) -> Score | None:
    """Returns the final score of a line: the last exact one of the greatest depth, or else the last bound.

    >>> best_known([Score(5, depth=1), Score(9, depth=2), Score(-80, is_exact=False, depth=3)]).cp
    9
    >>> best_known([Score(30, is_exact=False, depth=1), Score(60, is_exact=False, depth=1)]).cp
    60
    """
    return max(reversed([*scores]), key=lambda score: (score.is_exact, score.depth), default=None)


def scores_by_move(lines: Sequence[str]) -> dict[str, Score]:
    """Returns the final score of every move, by the first move of each pv."""
    by_move: dict[str, list[Score]] = {}
    for score in filter(None, map(parse_score, lines)):
        by_move.setdefault(score.move, []).append(score)
    return {move: best for move, scores in by_move.items() if move and (best := best_known(scores))}


def wdl_of(score: Score) -> WDL:
    """Returns the WDL of a score: of a mate, the engine's own, or that of its centipawns.

    >>> wdl_of(Score(0, wdl=(100, 800, 100)))
    WDL(win=0.1, draw=0.8, loss=0.1)
    >>> wdl_of(Score(0, mate=2)).q, wdl_of(Score(0, mate=-2)).draw
    (0.9998, 0.0)
    """
    if score.mate is not None:
        return wdl_from_q(mate_q(score.mate), 0.0)
    win, draw, loss = score.wdl or cp_wdl(score.cp)
    total = win + draw + loss
    q = (win - loss) / total
    if abs(q) <= MOST_CERTAIN:
        return WDL(win / total, draw / total, loss / total)
    return wdl_from_q(math.copysign(MOST_CERTAIN, q), 1.0 - MOST_CERTAIN)


def mate_q(moves: int) -> float:
    """Returns the Q of a mate in `moves` moves; negative: the side to move is mated; 0: it is mated now.

    >>> mate_q(1) > mate_q(2) > mate_q(500) > MOST_CERTAIN > -MOST_CERTAIN > mate_q(-3) > mate_q(0)
    True
    """
    distance = MATE_STEP * min(abs(moves), MATE_MOVES)
    return 1.0 - distance if moves > 0 else distance - 1.0


def cp_wdl(cp: float) -> tuple[float, float, float]:
    """Returns win, draw and loss of centipawns, for an engine without WDL."""
    win, loss = _sigmoid((cp - WIN_CP) / WIN_SCALE), _sigmoid((-cp - WIN_CP) / WIN_SCALE)
    return win, 1.0 - win - loss, loss


def policy_q(score: Score) -> float:
    """Returns the Q of a move for its prior.

    >>> round(policy_q(Score(100)), 3), policy_q(Score(0, mate=1)) > policy_q(Score(9000))
    (0.182, True)
    """
    if score.mate is not None:
        return mate_q(score.mate)
    return max(-MOST_CERTAIN, min(MOST_CERTAIN, 2 * _sigmoid(POLICY_SLOPE * score.cp) - 1))


def a_move_earlier(score: Score) -> Score:
    """Returns the score of a move from that of the position after it.

    >>> a_move_earlier(Score(30)).cp, [a_move_earlier(Score(0, mate=n)).mate for n in (0, -1, 3)]
    (-30, [1, 2, -3])
    """
    mate = score.mate
    if mate is not None:
        mate = 1 - mate if mate <= 0 else -mate  # the mating side's move counts
    wdl = None if score.wdl is None else (score.wdl[2], score.wdl[1], score.wdl[0])
    return Score(-score.cp, mate, wdl, score.is_exact, score.depth + 1)


def _sigmoid(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-max(-40.0, min(40.0, x))))


# -------------------------------------------------------------------------- one engine process
HANDSHAKE_SECONDS = 3.0  # the least time to start a program in, where searches may take less
READY_SECONDS = 60.0  # for the first isready: an engine may load a network here
QUIT_SECONDS = 1.0
KILL_SECONDS = 5.0
KEPT_LINES = 20_000  # lines with a score of one search: 90 depths of the position with the most moves
MOST_BYTES = 1 << 20  # of a line; engines print less than a hundredth of this
LAST_WORDS = 5  # lines of stderr, and of ERROR, that a failure shows
ERROR = "info string ERROR: "  # Stockfish's reasons, before it ends
THREAD = "graphsearch-uci"

T = TypeVar("T")


# not the messages of python-chess about engines of this module, which may print more than UCI
chess.engine.LOGGER.addFilter(lambda record: record.threadName != THREAD)


class EngineFailureError(Exception):
    """An engine's failure; the message completes a sentence that begins with the engine's name."""


class _Client(chess.engine.UciProtocol):
    """Speaks UCI; keeps the lines with a score, and the last ones on stderr or about an error."""

    def __init__(self) -> None:
        super().__init__()
        self.scores: deque[str] = deque(maxlen=KEPT_LINES)
        self.last_words: deque[str] = deque(maxlen=LAST_WORDS)
        self.fault = ""

    def line_received(self, line: str) -> None:
        if " score " in line:
            self.scores.append(line)
        elif line.startswith(ERROR):
            self.error_line_received(line.removeprefix(ERROR))

    def error_line_received(self, line: str) -> None:
        if words := line.strip():
            self.last_words.append(words[:200])

    def pipe_data_received(self, fd: int, data: bytes | str) -> None:
        assert not isinstance(data, str)  # it is a bytearray on Windows
        lines, end, rest = (self.buffer[fd] + data).rpartition(b"\n")
        self.buffer[fd].clear()
        # python-chess would drop lines that are not UTF-8
        super().pipe_data_received(fd, lines.decode(errors="replace").encode() + end + rest)
        if len(self.buffer[fd]) > MOST_BYTES:
            self.fault = "printed a line of more than a megabyte"
            self.end()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if self.buffer.get(fd):  # a last line without its end
            self.pipe_data_received(fd, b"\n")

    def process_exited(self) -> None:
        self.end()  # its child processes may keep its pipes open

    def end(self) -> None:
        """Kills the process and its child processes."""
        assert self.transport is not None
        end_tree(self.transport.get_pid())

    def ending(self) -> str:
        """Returns how the process ended, with its last lines on stderr."""
        if self.fault:
            return self.fault
        code = self.transport.get_returncode() if self.transport else None
        how = "ended" if code is None else f"ended with code {code}"
        if code is not None and code < 0:
            known = {int(number): number.name for number in signal.Signals}
            how = f"died of {known.get(-code, f'signal {-code}')}"
        words = "; ".join(self.last_words)
        return f"{how} ({words})" if words else how


class UciEngine:
    """A running engine. Any thread may call its methods, `kill` also during a search.

    Attributes:
      name: the engine's for itself, with its version. options: that it declares. set_options: those set.
      most_lines: the largest number of lines of one search (MultiPV). process: its id.
    """

    def __init__(self, program: Program, options: Mapping[str, str], *, seconds: float) -> None:
        """Starts an engine and sets its options; `seconds`: for the handshake, at least HANDSHAKE_SECONDS.

        Raises:
          EngineFailureError: if the program cannot be started, is no UCI engine, or does not become ready.
          InvalidParameterError: if it does not have an option, or does not allow its value.
        """
        # on Windows no other loop starts processes, but the program's policy may prefer another
        new_loop = getattr(asyncio, "ProactorEventLoop", asyncio.new_event_loop)
        self._loop: asyncio.AbstractEventLoop = new_loop()
        self._loop.set_exception_handler(self._answered_wrongly)
        self._thread = threading.Thread(target=self._loop.run_forever, name=THREAD, daemon=True)
        self._thread.start()
        self._client: _Client | None = None
        self._game: object = None
        self._lock, self._is_over = threading.Lock(), False
        seconds = max(seconds, HANDSHAKE_SECONDS)
        try:
            try:
                popen = _Client.popen(ending_with_parent(program.command), **own_group())
                _, self._client = self._run(popen, READY_SECONDS, "did not start")
            except OSError as error:
                raise EngineFailureError(f"cannot be started: {error.strerror or error}") from None
            client = self._client
            assert client.transport is not None
            self.process = client.transport.get_pid()
            late = f"is not a UCI engine: it did not answer `uci` within {seconds:.0f} seconds"
            self._run(client.initialize(), seconds, late, ended="is not a UCI engine: it {}")
            self.name, self.options = client.id.get("name", program.path.name), client.options
            multi = client.options.get("MultiPV")
            self.most_lines = 1 if multi is None else multi.max or 1
            self.set_options = engine_options(client.options, options, program.label)
            self._run(client.configure(self.set_options), seconds, late)
            late = f"was not ready within {READY_SECONDS:.0f} seconds"
            self._run(client.ping(), READY_SECONDS, late, ended="{} when its options were set")
        except BaseException:
            self.kill()
            raise

    def _run(self, asked: Coroutine[Any, Any, T], seconds: float, late: str, *, ended: str = "{}") -> T:
        """Returns the result of a coroutine in the engine's thread; raises EngineFailureError.

        Args:
          late: the message after some seconds. ended: that if the engine ends; {} says how.
        """
        with self._lock:
            if self._is_over:
                asked.close()
                raise EngineFailureError("was closed")
            answer = asyncio.run_coroutine_threadsafe(asyncio.wait_for(asked, seconds), self._loop)
        try:
            return answer.result()
        except TimeoutError:
            raise EngineFailureError(late) from None
        except CancelledError:
            raise EngineFailureError("was closed") from None
        except chess.engine.EngineTerminatedError:
            assert self._client is not None
            raise EngineFailureError(ended.format(self._client.ending())) from None
        except chess.engine.EngineError as error:
            raise EngineFailureError(f"answered wrongly: {error}") from None

    def _answered_wrongly(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Ends an engine whose answer, such as an illegal move, is an exception."""
        if self._client is not None and not self._client.fault:
            self._client.fault = f"answered wrongly: {context.get('exception', context['message'])}"
            self._client.end()

    def new_game(self) -> None:
        """Makes the next search send `ucinewgame` first, so that the engine clears its state."""
        self._game = object()

    def search(self, board: chess.Board, limit: Limit, *, seconds: float, lines: int = 1) -> list[str]:
        """Searches a position, without the moves to it; returns the `info` lines with a score, in order.

        Raises:
          EngineFailureError: if the engine hangs, ends, or returns an illegal move; the caller must kill it.
        """
        client = self._client
        assert client is not None

        async def best_move() -> chess.Move | None:
            client.scores.clear()
            multi, none = lines if lines > 1 else None, chess.engine.INFO_NONE
            position = board.copy(stack=False)
            analysis = await client.analysis(position, limit, multipv=multi, game=self._game, info=none)
            best = asyncio.ensure_future(analysis.wait())
            either: list[asyncio.Future[Any]] = [best, client.returncode]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not best.done():  # python-chess forgets it after a wrong answer
                best.cancel()
                raise chess.engine.EngineTerminatedError
            return best.result().move

        what, hint = f"depth {limit.depth}", ""
        if limit.nodes:
            what, hint = f"nodes {limit.nodes}", " (some engines want depth=)"
        late = f"did not answer `go {what}` within {seconds:g} seconds{hint}"
        if not self._run(best_move(), seconds, late):
            raise EngineFailureError("answered no move")
        return list(client.scores)

    def quit(self) -> None:
        """Sends `quit`, then kills the engine if it does not end."""
        assert self._client is not None
        with contextlib.suppress(EngineFailureError):
            self._run(self._client.quit(), QUIT_SECONDS, "")
        self.kill()

    def kill(self) -> None:
        """Kills the engine and its child processes. A second call does nothing."""
        with self._lock:
            if self._is_over:
                return
            self._is_over = True
            ended = asyncio.run_coroutine_threadsafe(self._end(), self._loop)
        ended.result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        """Kills the process, and waits until all that waited for it has failed.

        A killed process may not end, in a call to a device that hangs; what still waits then is cancelled.
        """
        client = self._client
        if client is not None and client.transport is not None:
            if client.transport.get_returncode() is None:  # after the exit its process id may be reused
                client.end()
            await asyncio.wait([client.returncode], timeout=KILL_SECONDS)
            client.transport.close()
        waiting = asyncio.all_tasks() - {asyncio.current_task()}
        if waiting:
            _, waiting = await asyncio.wait(waiting, timeout=KILL_SECONDS)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


# set in engines that have them: a large hash makes `ucinewgame` slow, and a book move has no score
DEFAULTS = {"Hash": 16, "Threads": 1, "OwnBook": False, "UCI_ShowWDL": True}


def engine_options(
    declared: Mapping[str, chess.engine.Option], given: Mapping[str, str], label: str
) -> ConfigMapping:
    """Returns the options to set in an engine: the given ones and DEFAULTS, under its own names.

    Raises:
      InvalidParameterError: if the engine does not have an option, or does not allow its value.
    """
    known = {name.lower(): option for name, option in declared.items()}
    found: dict[str, chess.engine.ConfigValue] = {}
    for name, text in given.items():
        option = known.get(name.lower())
        if option is None:
            theirs = ", ".join(sorted(declared)) or "none"
            raise InvalidParameterError(
                f"uci:{label} has no option {name!r}; own options: {', '.join(UCI)}; the engine's: {theirs}"
            )
        found[option.name] = _value(option, text, label)
    for name, value in DEFAULTS.items():
        option = known.get(name.lower())
        if option is not None and option.type == ("check" if isinstance(value, bool) else "spin"):
            least = value if option.min is None else max(value, option.min)
            found.setdefault(option.name, least if option.max is None else min(least, option.max))
    return found


def _value(option: chess.engine.Option, text: str, label: str) -> chess.engine.ConfigValue:
    what = f"the option {option.name} of uci:{label}"
    if option.is_managed():
        raise InvalidParameterError(f"{what} is set by graphsearch itself")
    if option.type == "button":
        raise InvalidParameterError(f"{what} is a button: it takes no value")
    if option.type == "check":
        return truth(what, text)
    spelled = {choice.lower(): choice for choice in option.var or ()}
    try:
        return option.parse(spelled.get(text.lower(), text))
    except chess.engine.EngineError as error:
        raise InvalidParameterError(f"uci:{label}: {error}") from None


# -------------------------------------------------------------------------- the evaluator
NETWORK_OPTIONS = ("evalfile", "evalfilesmall", "weightsfile")  # options that name a network file
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
    """Evaluates positions with any UCI engine, which runs until `close` or the end of the program.

    Attributes:
      identity: the program's hash, the engine's name, and the options and files that change results.
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
          policy_depth: depth of the search for P. temperature: of P.
          timeout: seconds for one search, and for the answer to `uci`.
          reproducible: start a new game for each position: results do not depend on earlier positions.
          options: of the engine, by names in any case.

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
            raise self._failure(str(error)) from None
        except BaseException:
            self.close()
            raise

    def evaluate(self, batch: PositionBatch) -> Evaluation:
        """Returns WDL and priors of every position.

        Raises:
          EvaluatorError: if an engine fails at a position twice, or does not support Chess960.
        """
        positions = list(batch.boards())
        for board, _ in positions:
            if board.chess960 and not self._plays_chess960:
                what = "has no option UCI_Chess960: it cannot be asked about the Chess960 position"
                raise self._failure(f"{what} {fen_of(board)}")
            board.fullmove_number = MOVE_NUMBER
        with self._batch:
            answers = [self._answer(board, moves) for board, moves in positions]
        wdl = np.array([value for value, _ in answers], np.float32).reshape(-1, 3)
        priors = [np.zeros(0), *(of_moves for _, of_moves in answers)]
        return Evaluation(wdl, np.concatenate(priors).astype(np.float32))

    def close(self) -> None:
        """Ends the engine; the evaluator cannot be used afterwards."""
        self._finalizer()

    # ---------------------------------------------------------- the engine
    def _failure(self, what: str) -> EvaluatorError:
        """Returns an error; `what` completes a sentence that begins with the engine's name."""
        return EvaluatorError(f"the engine {self.program.label} {what}")

    def _running(self) -> UciEngine:
        """Returns the engine, started if necessary; EngineFailureError if it has another name than before."""
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
                raise self._failure("was closed")
            try:
                engine = self._running()
                if self._reproducible:
                    engine.new_game()
                return self._value(engine, board, moves), self._priors(engine, board, moves)
            except EngineFailureError as error:
                did.append(str(error))
            _end(self._engines, failed=True)
        if not self._finalizer.alive:
            raise self._failure("was closed")
        first, second = did
        board = board.copy(stack=False)
        board.fullmove_number = 1  # that of the evaluator is for engines only
        again = ", and so it did once restarted" if second == first else f", and, restarted, {second}"
        raise self._failure(f"{first}{again}; position {fen_of(board)}")

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
        child = after(board, move)
        if (kind := terminal_kind(child)) != NOT_TERMINAL:
            return MATES if kind == CHECKMATE else DRAWS
        score = self._score(engine, child, limit)
        if score is None:
            raise EngineFailureError(f"gave no score for the position after {move.uci()}")
        return a_move_earlier(score)

    # ---------------------------------------------------------- P
    def _priors(self, engine: UciEngine, board: chess.Board, moves: Moves) -> NDArray[np.float64]:
        """Returns the priors of a position's moves; a move without a line is searched one ply less deep."""
        if self._part == "value" or len(moves) == 1:
            return np.full(len(moves), 1 / len(moves))
        scores = dict[str, Score]()
        if len(moves) <= engine.most_lines:
            limit = Limit(depth=self._policy_depth)
            scores = scores_by_move(engine.search(board, limit, seconds=self._timeout, lines=len(moves)))
        limit = Limit(depth=max(1, self._policy_depth - 1))
        q = [policy_q(scores.get(move.uci()) or self._after(engine, board, move, limit)) for move in moves]
        weights = np.exp((np.array(q) - max(q)) / self._temperature)
        return np.asarray(weights / weights.sum())

    # ---------------------------------------------------------- identity
    def _identity(self, engine: UciEngine) -> EvaluatorIdentity:
        set_options = engine.set_options
        options = {"engine": engine.name, **self._program_options(engine), **self._own_options()}
        options |= {name: value for name, value in set_options.items() if value is not None}
        shows_wdl = any(name.lower() == SHOW_WDL and on for name, on in set_options.items())
        value = OWN_WDL if shows_wdl else CP_WDL
        mapping = {"value": value, "policy": POLICY, "both": f"{value}, {POLICY}"}[self._part]
        return EvaluatorIdentity("uci", file_digest(self.program.path), options, mapping)

    def _own_options(self) -> dict[str, Option]:
        """Returns the settings of the searches that this evaluator's part uses."""
        found: dict[str, Option] = {"reproducible": self._reproducible}
        if self._part != "both":
            found["part"] = self._part
        if self._part != "policy":
            found["depth" if self._depth else "nodes"] = self._depth or self._nodes
        if self._part != "value":
            found["policy_depth"] = self._policy_depth
            found["PolicyTemperature"] = self._temperature
        return found

    def _program_options(self, engine: UciEngine) -> dict[str, Option]:
        """Returns identity options beyond the program's hash: arguments, a script's interpreter, files."""
        program, found = self.program, dict[str, Option]()
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
                value = str(engine.set_options.get(name, option.default))
                files[name] = named_file(value, program, given=name in engine.set_options)
        found |= {f"{name} sha256": file_digest(path)[:SHOWN_HEX] for name, path in files.items() if path}
        return found


def _end(engines: list[UciEngine], *, failed: bool = False) -> None:
    """Ends the engines, also while another thread does so; those that have failed get no `quit`."""
    with contextlib.suppress(IndexError):
        while True:
            engine = engines.pop()
            engine.kill() if failed else engine.quit()
