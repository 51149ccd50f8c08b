"""One engine process: started, asked, and ended, by python-chess's `chess.engine` on an event loop.

    UciEngine.start -> uci, uciok, setoption ..., isready, readyok
    UciEngine.search -> [ucinewgame, isready, readyok,] position, go -> the lines with a score, and the move

python-chess parses every `info` line into moves and objects, which for 30 lines a depth takes as long as the
engine thinks. So it is told to parse none; `Channel` keeps the lines as text, and `scores.py` reads those few
that count.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections import deque
from typing import Any

import chess
import chess.engine

from ...base.errors import EvaluatorError
from .program import Program

HANDSHAKE_SECONDS = 10.0
READY_SECONDS = 60.0  # for the first isready: an engine may load a network then
QUIT_SECONDS = 1.0
KILL_SECONDS = 5.0
KEPT_LINES = 20_000  # with a score, of one search: 90 depths of the position with the most moves
MOST_BYTES = 1 << 20  # of a line; no engine's is a hundredth of it
LAST_WORDS = 3  # lines of stderr that an error shows

# Run between fork and the engine, on Linux: the kernel then kills an engine whose parent was killed, also one
# that does not mind the end of its input. Between fork and exec itself (`preexec_fn`) nothing is safe while
# other threads run. Python ignores some signals, and that would be inherited.
GUARD = """
import os, signal, sys
for name in ("SIGPIPE", "SIGXFSZ"):
    signal.signal(getattr(signal, name), signal.SIG_DFL)
try:
    import ctypes
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
except (ImportError, OSError, AttributeError):
    pass  # the end of its input must do
try:
    os.execv(sys.argv[1], sys.argv[1:])
except OSError as error:
    sys.exit(error.strerror)
"""

# what an engine prints besides the protocol is of no interest to the user of this program
logging.getLogger("chess.engine").addHandler(logging.NullHandler())


class EngineFailureError(Exception):
    """What an engine did wrong, as the end of a sentence that begins with its name."""


class Channel(chess.engine.UciProtocol):
    """python-chess's protocol, which keeps what the engine says about its search as text."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: deque[str] = deque(maxlen=KEPT_LINES)
        self.last_words: deque[str] = deque(maxlen=LAST_WORDS)
        self.found: asyncio.Future[tuple[list[str], str]] | None = None
        self.exited = asyncio.Event()

    def listen(self) -> asyncio.Future[tuple[list[str], str]]:
        """Returns the future answer to the next `go`: the lines with a score, and the best move as text."""
        self.lines.clear()
        self.found = self.loop.create_future()
        return self.found

    def line_received(self, line: str) -> None:
        """Keeps a line if it says a score; the line with the best move completes the answer."""
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
        """Reads on; an engine that prints without end and without lines is cut off."""
        super().pipe_data_received(fd, data)
        if len(self.buffer[fd]) > MOST_BYTES:
            self.buffer[fd].clear()
            self._fail("printed a line of more than a megabyte")

    def process_exited(self) -> None:
        """Notes the end of the process, and ends what it had started, which may hold its pipes open."""
        self.exited.set()
        assert self.transport is not None
        _kill_group(self.transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends the answer that will not come."""
        super().connection_lost(exc)
        self._fail(self.ending())

    def _fail(self, what: str) -> None:
        if self.found and not self.found.done():
            self.found.set_exception(EngineFailureError(what))

    def ending(self) -> str:
        """Returns how the process ended, with its last words."""
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
    """A running engine; all of it belongs to one event loop."""

    def __init__(self, program: Program, transport: asyncio.SubprocessTransport, channel: Channel) -> None:
        self._program = program
        self._transport = transport
        self._channel = channel
        self._game: object = object()

    @property
    def name(self) -> str:
        """What the engine calls itself, with its version."""
        return self._channel.id.get("name", self._program.path.name)

    @property
    def options(self) -> dict[str, chess.engine.Option]:
        """The options that the engine declares."""
        return dict(self._channel.options)

    @property
    def most_lines(self) -> int:
        """The most lines that it searches at once (MultiPV)."""
        option = self._channel.options.get("MultiPV")
        return 1 if option is None else option.max or 1

    @property
    def process(self) -> int:
        """The process id."""
        return self._transport.get_pid()

    # ---------------------------------------------------------- start
    @classmethod
    async def start(cls, program: Program) -> UciEngine:
        """Returns the engine of a program, after its handshake.

        Raises:
          EngineFailureError: if it cannot be started, or is no UCI engine.
        """
        try:
            transport, channel = await Channel.popen(_guarded(program.command), start_new_session=True)
        except OSError as error:
            raise EngineFailureError(f"cannot be started: {error.strerror or error}") from None
        engine = cls(program, transport, channel)
        try:
            await engine._handshake()
        except BaseException:
            await engine.kill()
            raise
        return engine

    async def _handshake(self) -> None:
        try:
            async with asyncio.timeout(HANDSHAKE_SECONDS):
                await self._channel.initialize()
        except TimeoutError:
            raise EngineFailureError(
                f"is not a UCI engine: it did not answer `uci` within {HANDSHAKE_SECONDS:.0f} seconds"
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
        """Spares python-chess the comparison of all options with what is set, before every search."""
        target = self._channel.target_config
        for name in [name for name in target if name not in options]:
            del target[name]

    # ---------------------------------------------------------- search
    def new_game(self) -> None:
        """Has the engine forget, before the next search, all that it knows."""
        self._game = object()

    async def search(
        self, board: chess.Board, limit: chess.engine.Limit, *, seconds: float, lines: int = 1
    ) -> list[str]:
        """Returns the `info` lines with a score, in order; after a failure the engine can only be killed.

        Args:
          board: the position, alone: its moves so far are not sent.
          limit: when it ends. seconds: to wait for it. lines: MultiPV.

        Raises:
          EngineFailureError: if it hangs, ends, or answers a move that is not legal.
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
                answer.exception()  # seen, also if something else failed first
        _check_move(board, best)
        return found

    # ---------------------------------------------------------- end
    async def quit(self) -> None:
        """Asks the engine to end, and ends it if it does not."""
        with contextlib.suppress(TimeoutError, OSError, chess.engine.EngineError):
            async with asyncio.timeout(QUIT_SECONDS):
                await self._channel.quit()
        await self.kill()

    async def kill(self) -> None:
        """Ends the engine and whatever it started."""
        if not self._channel.exited.is_set():  # its number may be another's by now
            _kill_group(self._transport)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(KILL_SECONDS):
                await self._channel.exited.wait()  # `close` before would reap it: asyncio warns of that
        self._transport.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(KILL_SECONDS):
                await asyncio.shield(self._channel.returncode)


def _kill_group(transport: asyncio.SubprocessTransport) -> None:
    """Kills a process and what it started; where there are no process groups, the process alone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(transport.get_pid(), signal.SIGKILL)
        else:
            transport.kill()


def _guarded(command: list[str]) -> list[str]:
    """Returns the command line that ends with this process, where that can be had."""
    if sys.platform == "linux" and sys.executable and not getattr(sys, "frozen", False):
        return [sys.executable, "-I", "-S", "-c", GUARD, *command]
    return command


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
    """Returns the error that says what an engine did."""
    return EvaluatorError(f"the engine {program.label} {what}")
