"""Starts, queries and ends one engine process with python-chess's `chess.engine`, on an event loop.

    UciEngine.start -> uci, uciok, setoption ..., isready, readyok
    UciEngine.search -> [ucinewgame, isready, readyok,] position, go -> the lines with a score, and the move

python-chess parses every `info` line into moves and objects; with 30 lines per depth this takes as long as
the engine's search. So we turn its parsing off: `Channel` keeps the lines as text, and `scores.py` parses
only the few that count.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections import deque
from typing import Any

import chess
import chess.engine

from ...base.errors import EvaluatorError
from ...base.system import end_group, ending_with_parent, own_group
from .program import Program

HANDSHAKE_SECONDS = 3.0  # the least time to start a program in, where searches may take less
READY_SECONDS = 60.0  # for the first isready: an engine may load a network here
QUIT_SECONDS = 1.0
KILL_SECONDS = 5.0
KEPT_LINES = 20_000  # lines with a score of one search: 90 depths of the position with the most moves
MOST_BYTES = 1 << 20  # of a line; engines print less than a hundredth of this
LAST_WORDS = 3  # lines of stderr that an error shows

# output of an engine outside the protocol does not concern the user
logging.getLogger("chess.engine").addHandler(logging.NullHandler())


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

    def listen(self) -> asyncio.Future[tuple[list[str], str]]:
        """Returns the future result of the next `go`: the lines with a score, and the best move as text."""
        self.lines.clear()
        self.found = self.loop.create_future()
        return self.found

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
        how = (
            "ended" if code is None else f"ended with code {code}" if code >= 0 else f"died of {_name(-code)}"
        )
        words = "; ".join(self.last_words)
        return f"{how} ({words})" if words else how


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class UciEngine:
    """A running engine; use it on one event loop only."""

    def __init__(self, program: Program, transport: asyncio.SubprocessTransport, channel: Channel) -> None:
        self._program = program
        self._transport = transport
        self._channel = channel
        self._game: object = object()

    @property
    def name(self) -> str:
        """The engine's name for itself, with its version."""
        return self._channel.id.get("name", self._program.path.name)

    @property
    def options(self) -> dict[str, chess.engine.Option]:
        """The options that the engine declares."""
        return dict(self._channel.options)

    @property
    def most_lines(self) -> int:
        """The largest number of lines of one search (MultiPV)."""
        option = self._channel.options.get("MultiPV")
        return 1 if option is None else option.max or 1

    @property
    def process(self) -> int:
        """The process id."""
        return self._transport.get_pid()

    # ---------------------------------------------------------- start
    @classmethod
    async def start(cls, program: Program, *, seconds: float) -> UciEngine:
        """Starts a program and completes the UCI handshake, in `seconds` or at least HANDSHAKE_SECONDS.

        Raises:
          EngineFailureError: if the program cannot be started, or is no UCI engine.
        """
        try:
            transport, channel = await Channel.popen(ending_with_parent(program.command), **own_group())
        except OSError as error:
            raise EngineFailureError(f"cannot be started: {error.strerror or error}") from None
        engine = cls(program, transport, channel)
        try:
            await engine._handshake(max(seconds, HANDSHAKE_SECONDS))
        except BaseException:
            await engine.kill()
            raise
        return engine

    async def _handshake(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._channel.initialize()
        except TimeoutError:
            raise EngineFailureError(
                f"is not a UCI engine: it did not answer `uci` within {seconds:.0f} seconds"
            ) from None
        except chess.engine.EngineTerminatedError:
            raise EngineFailureError(f"is not a UCI engine: it {self._channel.ending()}") from None
        except chess.engine.EngineError as error:
            raise EngineFailureError(f"declared an invalid option: {error}") from None

    async def configure(self, options: chess.engine.ConfigMapping) -> None:
        """Sets options, and waits until the engine is ready.

        Raises:
          EngineFailureError: if it does not become ready.
        """
        try:
            async with asyncio.timeout(READY_SECONDS):
                await self._channel.configure(options)
                await self._channel.ping()
            self._forget_defaults(options)
        except TimeoutError:
            raise EngineFailureError(f"was not ready within {READY_SECONDS:.0f} seconds") from None
        except chess.engine.EngineTerminatedError:
            raise EngineFailureError(f"{self._channel.ending()} when its options were set") from None
        except chess.engine.EngineError as error:
            raise EngineFailureError(f"did not accept its options: {error}") from None

    def _forget_defaults(self, options: chess.engine.ConfigMapping) -> None:
        """Removes unset options from python-chess's target, which it compares before every search."""
        target = self._channel.target_config
        for name in [name for name in target if name not in options]:
            del target[name]

    # ---------------------------------------------------------- search
    def new_game(self) -> None:
        """Makes the next search send `ucinewgame` first, so that the engine clears its state."""
        self._game = object()

    async def search(
        self, board: chess.Board, limit: chess.engine.Limit, *, seconds: float, lines: int = 1
    ) -> list[str]:
        """Searches a position; returns the `info` lines with a score, in order.

        Args:
          board: the position, without a move stack.
          limit: of the search. seconds: timeout. lines: MultiPV.

        Raises:
          EngineFailureError: if the engine hangs, ends, or returns an illegal move; the caller must kill it.
        """
        channel = self._channel
        answer = channel.listen()
        options: dict[str, Any] = {"multipv": lines, "game": self._game}
        try:
            async with asyncio.timeout(seconds):
                await channel.analysis(board, limit, info=chess.engine.INFO_NONE, **options)
                found, best = await answer
        except TimeoutError:
            raise EngineFailureError(_silence(limit, seconds)) from None
        except chess.engine.EngineTerminatedError:
            raise EngineFailureError(channel.ending()) from None
        except chess.engine.EngineError as error:
            raise EngineFailureError(f"failed: {error}") from None
        finally:
            if answer.done() and not answer.cancelled():
                answer.exception()  # retrieve it, or asyncio warns if something else failed first
        _check_move(board, best)
        return found

    # ---------------------------------------------------------- end
    async def quit(self) -> None:
        """Sends `quit`, then kills the engine if it does not end."""
        with contextlib.suppress(TimeoutError, OSError, chess.engine.EngineError):
            async with asyncio.timeout(QUIT_SECONDS):
                await self._channel.quit()
        await self.kill()

    async def kill(self) -> None:
        """Kills the engine and its child processes."""
        if not self._channel.exited.is_set():  # after the exit its process id may be reused
            end_group(self._transport.get_pid())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(KILL_SECONDS):
                await self._channel.exited.wait()  # an earlier `close` would reap it, and asyncio would warn
        self._transport.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(KILL_SECONDS):
                await asyncio.shield(self._channel.returncode)


def _silence(limit: chess.engine.Limit, seconds: float) -> str:
    if limit.nodes is None:
        return f"did not answer `go depth {limit.depth}` within {seconds:g} seconds"
    return f"did not answer `go nodes {limit.nodes}` within {seconds:g} seconds (some engines want depth=)"


def _check_move(board: chess.Board, text: str) -> None:
    with contextlib.suppress(ValueError):
        if board.parse_uci(text.lower()):  # the null move is none
            return
    raise EngineFailureError(f"answered the move {text!r}, which is not legal")


def failure(program: Program, what: str) -> EvaluatorError:
    """Returns an error about an engine; `what` completes a sentence that begins with its name."""
    return EvaluatorError(f"the engine {program.label} {what}")
