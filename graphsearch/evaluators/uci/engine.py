"""Starts, queries and ends one engine process, by python-chess.

The lines with a score stay text: with 30 lines per depth, parsing them all into moves takes as long as the
engine's search. `scores.py` parses the few that count.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import threading
from collections import deque
from collections.abc import Coroutine, Mapping
from concurrent.futures import CancelledError
from typing import Any, TypeVar

import chess
import chess.engine

from ...base.errors import EvaluatorError, InvalidParameterError
from ...base.system import end_group, ending_with_parent, own_group
from ..factory import UCI, truth
from .program import Program

HANDSHAKE_SECONDS = 3.0  # the least time to start a program in, where searches may take less
READY_SECONDS = 60.0  # for the first isready: an engine may load a network here
QUIT_SECONDS = 1.0
KILL_SECONDS = 5.0
KEPT_LINES = 20_000  # lines with a score of one search: 90 depths of the position with the most moves
MOST_BYTES = 1 << 20  # of a line; engines print less than a hundredth of this
LAST_WORDS = 3  # lines of stderr that an error shows

THREAD = "graphsearch-uci"

Options = Mapping[str, chess.engine.Option]  # that an engine declares, by name
T = TypeVar("T")


def _is_of_others(record: logging.LogRecord) -> bool:
    """Returns whether python-chess's message is not about an engine here, which may print more than UCI."""
    return record.threadName != THREAD


chess.engine.LOGGER.addFilter(_is_of_others)


class EngineFailureError(Exception):
    """An engine's failure; the message completes a sentence that begins with the engine's name."""


class _Client(chess.engine.UciProtocol):
    """Speaks UCI; keeps the lines with a score, and the last ones on stderr."""

    def __init__(self) -> None:
        super().__init__()
        self.scores: deque[str] = deque(maxlen=KEPT_LINES)
        self.last_words: deque[str] = deque(maxlen=LAST_WORDS)
        self.fault = ""

    def line_received(self, line: str) -> None:
        if " score " in line:
            self.scores.append(line)

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
        end_group(self.transport.get_pid())

    def ending(self) -> str:
        """Describes how the process ended, with its last lines on stderr."""
        if self.fault:
            return self.fault
        code = self.transport.get_returncode() if self.transport else None
        if code is None:
            how = "ended"
        elif code >= 0:
            how = f"ended with code {code}"
        else:
            known = {int(number): number.name for number in signal.Signals}
            how = f"died of {known.get(-code, f'signal {-code}')}"
        words = "; ".join(self.last_words)
        return f"{how} ({words})" if words else how


class UciEngine:
    """A running engine. Any thread may call its methods, `kill` also during a search.

    Attributes:
      name: the engine's for itself, with its version. options: that it declares. set_options: those set.
      most_lines: the largest number of lines of one search (MultiPV).
      process: its id.
    """

    def __init__(self, program: Program, options: Mapping[str, str], *, seconds: float) -> None:
        """Starts and configures an engine.

        Args:
          options: to set.
          seconds: for the UCI handshake, at least HANDSHAKE_SECONDS.

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
        """Returns the result of a coroutine in the engine's thread.

        Args:
          late: the message if it takes longer than some seconds. ended: if the engine ends; {} says how.

        Raises:
          EngineFailureError: in both cases, or if the engine's answer is wrong.
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

    def search(
        self, board: chess.Board, limit: chess.engine.Limit, *, seconds: float, lines: int = 1
    ) -> list[str]:
        """Searches a position; returns the `info` lines with a score, in order.

        Args:
          board: the position; its moves are not sent.
          seconds: timeout. lines: MultiPV.

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

    # ---------------------------------------------------------- the end
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


def failure(program: Program, what: str) -> EvaluatorError:
    """Returns an error about an engine; `what` completes a sentence that begins with its name."""
    return EvaluatorError(f"the engine {program.label} {what}")


# ---------------------------------------------------------- options
# those that we set in engines that have them: a large hash makes `ucinewgame` slow, and a book move has no
# score
DEFAULTS = {"Hash": 16, "Threads": 1, "OwnBook": False, "UCI_ShowWDL": True}


def engine_options(declared: Options, given: Mapping[str, str], label: str) -> chess.engine.ConfigMapping:
    """Returns the options to set in an engine: the given ones and DEFAULTS, under its own names, checked.

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
