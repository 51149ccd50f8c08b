"""Starts, queries and ends one engine process with python-chess's `chess.engine`, on its own event loop.

    UciEngine -> uci, uciok, setoption ..., isready, readyok
    search    -> [ucinewgame, isready, readyok,] position, go -> the lines with a score, and the move

python-chess parses every `info` line into moves and objects; with 30 lines per depth this takes as long as
the engine's search. So we turn its parsing off: `Channel` keeps the lines as text, and `scores.py` parses
only the few that count.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import CancelledError
from typing import Any, TypeVar

import chess
import chess.engine

from ...base.errors import EvaluatorError, InvalidParameterError
from ...base.system import end_group, ending_with_parent, own_group
from ..options import CHECKS, UCI, truth
from .program import Program

HANDSHAKE_SECONDS = 3.0  # the least time to start a program in, where searches may take less
READY_SECONDS = 60.0  # for the first isready: an engine may load a network here
QUIT_SECONDS = 1.0
KILL_SECONDS = 5.0
KEPT_LINES = 20_000  # lines with a score of one search: 90 depths of the position with the most moves
MOST_BYTES = 1 << 20  # of a line; engines print less than a hundredth of this
LAST_WORDS = 3  # lines of stderr that an error shows

Options = Mapping[str, chess.engine.Option]  # that an engine declares, by name
Configure = Callable[[Options], chess.engine.ConfigMapping]  # returns the options to set
_T = TypeVar("_T")

log = logging.getLogger(__name__)
for _name in (__name__, "chess.engine"):  # output outside the protocol does not concern the user
    logging.getLogger(_name).addHandler(logging.NullHandler())


class EngineFailureError(Exception):
    """An engine's failure; the message completes a sentence that begins with the engine's name."""


class Channel(chess.engine.UciProtocol):
    """python-chess's protocol, extended to keep the engine's `info` lines as text."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: deque[str] = deque(maxlen=KEPT_LINES)
        self.last_words: deque[str] = deque(maxlen=LAST_WORDS)
        self.found: asyncio.Future[tuple[list[str], str]] | None = None
        self.exited = asyncio.Event()

    async def search(self, board: chess.Board, limit: chess.engine.Limit, **options: Any) -> list[str]:
        """Returns the lines with a score of one search; EngineFailureError if its move is illegal."""
        self.lines.clear()
        found = self.found = self.loop.create_future()
        try:
            await self.analysis(board, limit, info=chess.engine.INFO_NONE, **options)
            lines: list[str]
            lines, best = await found
        finally:
            if found.done() and not found.cancelled():
                found.exception()  # retrieve it, or asyncio warns if something else failed first
        with contextlib.suppress(ValueError):
            if board.parse_uci(best.lower()):  # the null move is none
                return lines
        raise EngineFailureError(f"answered the move {best!r}, which is not legal")

    def line_received(self, line: str) -> None:
        """Keeps a line with a score; a `bestmove` line completes the result."""
        if " score " in line:
            self.lines.append(line.strip())
        elif line.lstrip().startswith("bestmove") and self.found and not self.found.done():
            words = line.split()
            self.found.set_result((list(self.lines), words[1] if len(words) > 1 else ""))

    def error_line_received(self, line: str) -> None:
        """Keeps the last lines of stderr."""
        if line.strip():
            self.last_words.append(line.strip()[:200])

    def pipe_data_received(self, fd: int, data: bytes | str) -> None:
        """Reads output; fails the search if the engine prints more than MOST_BYTES without a newline."""
        super().pipe_data_received(fd, data)
        if len(self.buffer[fd]) > MOST_BYTES:
            self.buffer[fd].clear()
            self._fail("printed a line of more than a megabyte")

    def process_exited(self) -> None:
        """Records the end of the process, and kills its child processes, which may keep its pipes open."""
        self.exited.set()
        assert self.transport is not None
        end_group(self.transport.get_pid())

    def connection_lost(self, exc: Exception | None) -> None:
        """Fails the pending result."""
        super().connection_lost(exc)
        self._fail(self.ending())

    def _fail(self, what: str) -> None:
        if self.found and not self.found.done():
            self.found.set_exception(EngineFailureError(what))

    def ending(self) -> str:
        """Describes how the process ended, with its last lines on stderr."""
        code = self.returncode.result() if self.returncode.done() else None
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
      name: the engine's for itself, with its version. options: that it declares.
      most_lines: the largest number of lines of one search (MultiPV).
      process: its id.
    """

    def __init__(self, program: Program, configure: Configure, *, seconds: float) -> None:
        """Starts and configures an engine.

        Args:
          configure: returns the options to set.
          seconds: for the UCI handshake, at least HANDSHAKE_SECONDS.

        Raises:
          EngineFailureError: if the program cannot be started, is no UCI engine, or does not become ready.
        """
        self._game: object = object()
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(_note)
        self._thread = threading.Thread(target=self._loop.run_forever, name="graphsearch-uci", daemon=True)
        self._thread.start()
        self._changing, self._is_over = threading.Lock(), False
        self._channel: Channel | None = None
        try:
            command = ending_with_parent(program.command)
            self._transport, self._channel = self._await(Channel.popen(command, **own_group()))
            self._handshake(self._channel, max(seconds, HANDSHAKE_SECONDS))
            self.name = self._channel.id.get("name", program.path.name)
            self.options: Options = dict(self._channel.options)
            multi = self.options.get("MultiPV")
            self.most_lines = 1 if multi is None else multi.max or 1
            self.process = self._transport.get_pid()
            self._configure(self._channel, configure(self.options))
        except OSError as error:
            self.kill()
            raise EngineFailureError(f"cannot be started: {error.strerror or error}") from None
        except BaseException:
            self.kill()
            raise

    def _await(self, work: Coroutine[Any, Any, _T], seconds: float | None = None) -> _T:
        """Returns the result of a coroutine; TimeoutError if it takes longer."""
        with self._changing:
            if self._is_over:
                work.close()
                raise EngineFailureError("was closed")
            future = asyncio.run_coroutine_threadsafe(asyncio.wait_for(work, seconds), self._loop)
        try:
            return future.result()
        except CancelledError:
            raise EngineFailureError("was closed") from None

    def _handshake(self, channel: Channel, seconds: float) -> None:
        try:
            self._await(channel.initialize(), seconds)
        except TimeoutError:
            raise EngineFailureError(
                f"is not a UCI engine: it did not answer `uci` within {seconds:.0f} seconds"
            ) from None
        except chess.engine.EngineTerminatedError:
            raise EngineFailureError(f"is not a UCI engine: it {channel.ending()}") from None
        except chess.engine.EngineError as error:
            raise EngineFailureError(f"declared an invalid option: {error}") from None

    def _configure(self, channel: Channel, options: chess.engine.ConfigMapping) -> None:
        try:
            self._await(channel.configure(options), READY_SECONDS)
            self._await(channel.ping(), READY_SECONDS)
        except TimeoutError:
            raise EngineFailureError(f"was not ready within {READY_SECONDS:.0f} seconds") from None
        except chess.engine.EngineTerminatedError:
            raise EngineFailureError(f"{channel.ending()} when its options were set") from None
        except chess.engine.EngineError as error:
            raise EngineFailureError(f"did not accept its options: {error}") from None
        # python-chess compares its target before every search: leave no defaults in it
        for name in [name for name in channel.target_config if name not in options]:
            del channel.target_config[name]

    def new_game(self) -> None:
        """Makes the next search send `ucinewgame` first, so that the engine clears its state."""
        self._game = object()

    def search(
        self, board: chess.Board, limit: chess.engine.Limit, *, seconds: float, lines: int = 1
    ) -> list[str]:
        """Searches a position; returns the `info` lines with a score, in order.

        Args:
          board: the position, without a move stack.
          limit: of the search. seconds: timeout. lines: MultiPV.

        Raises:
          EngineFailureError: if the engine hangs, ends, or returns an illegal move; the caller must kill it.
        """
        assert self._channel is not None
        try:
            return self._await(self._channel.search(board, limit, multipv=lines, game=self._game), seconds)
        except TimeoutError:
            what, hint = f"depth {limit.depth}", ""
            if limit.nodes is not None:
                what, hint = f"nodes {limit.nodes}", " (some engines want depth=)"
            raise EngineFailureError(f"did not answer `go {what}` within {seconds:g} seconds{hint}") from None
        except chess.engine.EngineTerminatedError:
            raise EngineFailureError(self._channel.ending()) from None
        except chess.engine.EngineError as error:
            raise EngineFailureError(f"failed: {error}") from None

    def quit(self) -> None:
        """Sends `quit`, then kills the engine if it does not end."""
        if self._channel is not None:
            with contextlib.suppress(TimeoutError, OSError, chess.engine.EngineError, EngineFailureError):
                self._await(self._channel.quit(), QUIT_SECONDS)
        self.kill()

    def kill(self) -> None:
        """Kills the engine and its child processes, and ends the thread. A second call does nothing."""
        with self._changing:
            if self._is_over:
                return
            self._is_over = True
        ended = asyncio.run_coroutine_threadsafe(self._end(), self._loop)
        with contextlib.suppress(Exception):
            ended.result(3 * KILL_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(KILL_SECONDS)
        if not self._thread.is_alive():
            self._loop.close()

    async def _end(self) -> None:
        """Ends the process, then what still waits for it."""
        if (channel := self._channel) is not None:
            if not channel.exited.is_set():  # after the exit its process id may be reused
                end_group(self._transport.get_pid())
            with contextlib.suppress(TimeoutError):  # an earlier `close` would reap it: asyncio would warn
                await asyncio.wait_for(channel.exited.wait(), KILL_SECONDS)
            self._transport.close()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(channel.returncode), KILL_SECONDS)
        waiting = asyncio.all_tasks() - {asyncio.current_task()}
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


def _note(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    log.debug("%s", context.get("message"), exc_info=context.get("exception"))


def failure(program: Program, what: str) -> EvaluatorError:
    """Returns an error about an engine; `what` completes a sentence that begins with its name."""
    return EvaluatorError(f"the engine {program.label} {what}")


# ---------------------------------------------------------- options
# those that we set in engines that have them: a large hash makes `ucinewgame` slow, and a book move has no
# score
DEFAULTS = {"Hash": "16", "Threads": "1", "OwnBook": "false", "UCI_ShowWDL": "true"}
SETTABLE = ("check", "spin", "combo", "string", "file", "path")  # the types of options with a value


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
            theirs = ", ".join(sorted(n for n, o in declared.items() if _is_settable(o))) or "none"
            raise InvalidParameterError(
                f"uci:{label} has no option {name!r}; own options: {', '.join(UCI)}; the engine's: {theirs}"
            )
        found[option.name] = _value(option, text, label)
    for name, text in DEFAULTS.items():
        option = known.get(name.lower())
        if option is not None and option.name not in found and option.type in ("check", "spin"):
            found[option.name] = CHECKS[text] if option.type == "check" else _within(option, int(text))
    return found


def _is_settable(option: chess.engine.Option) -> bool:
    return option.type in SETTABLE and not option.is_managed()


def _value(option: chess.engine.Option, text: str, label: str) -> chess.engine.ConfigValue:
    what = f"the option {option.name} of uci:{label}"
    if option.is_managed():
        raise InvalidParameterError(f"{what} is set by graphsearch itself")
    if option.type not in SETTABLE:
        raise InvalidParameterError(f"{what} is a {option.type}: it takes no value")
    if option.type == "check":
        return truth(what, text)
    spelled = {choice.lower(): choice for choice in option.var or ()}
    try:
        return option.parse(spelled.get(text.lower(), text))
    except chess.engine.EngineError as error:
        raise InvalidParameterError(f"uci:{label}: {error}") from None


def _within(option: chess.engine.Option, value: int) -> int:
    value = value if option.min is None else max(value, option.min)
    return value if option.max is None else min(value, option.max)
