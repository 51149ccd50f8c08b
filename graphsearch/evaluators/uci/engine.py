"""Starts, queries and ends one engine process.

    UciEngine -> uci, uciok, setoption ..., isready, readyok
    search    -> [ucinewgame, isready, readyok,] position, go -> the lines with a score, and the move

Threads read what the engine prints. python-chess's client parses every `info` line into moves and objects;
with 30 lines per depth this takes as long as the engine's search. So the lines stay text here, and
`scores.py` parses only the few that count.
"""

from __future__ import annotations

import contextlib
import queue
import re
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import replace

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

Options = Mapping[str, chess.engine.Option]  # that an engine declares, by name


class EngineFailureError(Exception):
    """An engine's failure; the message completes a sentence that begins with the engine's name."""


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
        pipe = subprocess.PIPE
        try:
            self._process = subprocess.Popen(  # noqa: S603
                ending_with_parent(program.command), stdin=pipe, stdout=pipe, stderr=pipe, **own_group()
            )
        except OSError as error:
            raise EngineFailureError(f"cannot be started: {error.strerror or error}") from None
        self.process = self._process.pid
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()  # None at the end
        self._last_words: deque[str] = deque(maxlen=LAST_WORDS)
        self._fault = ""
        self._values: dict[str, object] = {}  # of options, where they are not the default
        self._is_new_game = True
        works = (self._read_output, self._read_errors, self._await_end)
        self._threads = [threading.Thread(target=w, name="graphsearch-uci", daemon=True) for w in works]
        for thread in self._threads:
            thread.start()
        try:
            self.name, self.options = program.path.name, dict[str, chess.engine.Option]()
            self._handshake(max(seconds, HANDSHAKE_SECONDS))
            multi = self._declared("MultiPV")
            self.most_lines = 1 if multi is None else multi.max or 1
            self.set_options = engine_options(self.options, options, program.label)
            self._configure(self.set_options)
        except BaseException:
            self.kill()
            raise

    # ---------------------------------------------------------- threads
    def _read_output(self) -> None:
        assert self._process.stdout is not None
        while line := self._process.stdout.readline(MOST_BYTES):
            if len(line) == MOST_BYTES:
                self._fault = "printed a line of more than a megabyte"
                break
            self._lines.put(line.decode(errors="replace").strip())
        self._lines.put(None)

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        while line := self._process.stderr.readline(MOST_BYTES):
            if words := line.decode(errors="replace").strip():
                self._last_words.append(words[:200])

    def _await_end(self) -> None:
        """Waits for the end of the process, and kills its child processes, which may keep its pipes open."""
        self._process.wait()
        end_group(self.process)

    # ---------------------------------------------------------- the protocol
    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError, ValueError):  # it has ended; its answer says how
            self._process.stdin.write(f"{line}\n".encode())
            self._process.stdin.flush()

    def _hear(self, word: str, seconds: float, late: str, *, keep: str = "", ended: str = "{}") -> list[str]:
        """Returns the lines with the text `keep`, up to the next that begins with a word, and that one.

        Args:
          late: the message if it does not come within some seconds. ended: if the engine ends; {} says how.

        Raises:
          EngineFailureError: in both cases.
        """
        found: deque[str] = deque(maxlen=KEPT_LINES)
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            try:
                line = self._lines.get(timeout=left)
            except queue.Empty:
                break
            if line is None:
                self._lines.put(None)  # for the next call
                raise EngineFailureError(ended.format(self._ending()))
            if line.split(None, 1)[:1] == [word]:
                return [*found, line]
            if keep in line:
                found.append(line)
        raise EngineFailureError(late)

    def _ending(self) -> str:
        """Describes how the process ended, with its last lines on stderr."""
        if self._fault:
            return self._fault
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(QUIT_SECONDS)
        code = self._process.returncode
        if code is None:
            how = "ended"
        elif code >= 0:
            how = f"ended with code {code}"
        else:
            known = {int(number): number.name for number in signal.Signals}
            how = f"died of {known.get(-code, f'signal {-code}')}"
        self._threads[1].join(QUIT_SECONDS)  # it reads stderr
        words = "; ".join(self._last_words)
        return f"{how} ({words})" if words else how

    def _handshake(self, seconds: float) -> None:
        self._say("uci")
        late = f"is not a UCI engine: it did not answer `uci` within {seconds:.0f} seconds"
        for line in self._hear("uciok", seconds, late, ended="is not a UCI engine: it {}"):
            if line.startswith("id name "):
                self.name = line.removeprefix("id name ").strip()
            elif line.startswith("option name "):
                option = parse_option(line)
                self.options[option.name] = option

    def _configure(self, options: chess.engine.ConfigMapping) -> None:
        for name, value in {"UCI_AnalyseMode": True, **options}.items():
            self._set(name, value)
        self._say("isready")
        late = f"was not ready within {READY_SECONDS:.0f} seconds"
        self._hear("readyok", READY_SECONDS, late, ended="{} when its options were set")

    def _declared(self, name: str) -> chess.engine.Option | None:
        return {own.lower(): option for own, option in self.options.items()}.get(name.lower())

    def _set(self, name: str, value: object) -> None:
        """Sets an option, if the engine has it and has another value."""
        option = self._declared(name)
        if option is None or self._values.get(option.name, option.default) == value:
            return
        self._values[option.name] = value
        text = str(value).lower() if isinstance(value, bool) else value
        self._say(f"setoption name {option.name} value {text}")

    def new_game(self) -> None:
        """Makes the next search send `ucinewgame` first, so that the engine clears its state."""
        self._is_new_game = True

    def search(self, board: chess.Board, limit: str, *, seconds: float, lines: int = 1) -> list[str]:
        """Searches a position; returns the `info` lines with a score, in order.

        Args:
          board: the position; its moves are not sent.
          limit: of the search, as `go` takes it, such as `depth 6`. seconds: timeout. lines: MultiPV.

        Raises:
          EngineFailureError: if the engine hangs, ends, or returns an illegal move; the caller must kill it.
        """
        until = time.monotonic() + seconds
        hint = " (some engines want depth=)" if limit.startswith("nodes") else ""
        late = f"did not answer `go {limit}` within {seconds:g} seconds{hint}"
        for name, value in (("Ponder", False), ("MultiPV", lines)):
            self._set(name, value)
        if self._is_new_game:
            self._is_new_game = False
            self._say("ucinewgame\nisready")
            self._hear("readyok", seconds, late)
        self._set("UCI_Chess960", board.chess960)
        self._say(f"position fen {board.fen(shredder=board.chess960, en_passant='fen')}\ngo {limit}")
        *found, last = self._hear("bestmove", until - time.monotonic(), late, keep=" score ")
        best = "".join(last.split()[1:2])
        with contextlib.suppress(ValueError):
            if board.parse_uci(best.lower()):  # the null move is none
                return found
        raise EngineFailureError(f"answered the move {best!r}, which is not legal")

    # ---------------------------------------------------------- the end
    def quit(self) -> None:
        """Sends `quit`, then kills the engine if it does not end."""
        self._say("quit")
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(QUIT_SECONDS)
        self.kill()

    def kill(self) -> None:
        """Kills the engine and its child processes. A second call does nothing."""
        if self._process.poll() is None:  # after the exit its process id may be reused
            end_group(self.process)
        for thread in self._threads:
            thread.join(KILL_SECONDS)
        if not any(thread.is_alive() for thread in self._threads):
            with contextlib.suppress(OSError):  # what could not be written
                self._process.__exit__(None, None, None)


def parse_option(line: str) -> chess.engine.Option:
    """Parses a line in which an engine declares an option.

    Raises:
      EngineFailureError: if the line is invalid.

    >>> parse_option("option name Skill Level type spin default 20 min 0 max 20").max
    20
    """
    name, _, rest = line.removeprefix("option name ").partition(" type ")
    kind, *parts = re.split(r"\s(default|min|max|var)(?=\s|$)", rest)
    fields = [(word, text.strip()) for word, text in zip(parts[::2], parts[1::2], strict=True)]
    given = dict(fields)
    try:
        least, most = (int(given[word]) if word in given else None for word in ("min", "max"))
        choices = [text for word, text in fields if word == "var"]
        found = chess.engine.Option(name.strip(), kind.strip(), None, least, most, choices)
        return replace(found, default=found.parse(given.get("default", "")))
    except (ValueError, chess.engine.EngineError) as error:
        raise EngineFailureError(f"declared an invalid option: {error}") from None


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
