"""Limits on input, and `open_file`, which opens every file that a user names.

Limits are generous: no genuine file reaches one. An environment variable overrides a limit, unless a format
or a kernel sets it. docs/contributing/limits.md lists them and says why each has its value.
"""

from __future__ import annotations

import io
import math
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from . import system
from .errors import InputFileError, InvalidParameterError

PREFIX = "GRAPHSEARCH_MAX_"  # of the environment variables
BYTES, TIMES = "bytes", "times"
PIECE = 1 << 20  # bytes per read; signals are handled between reads
WAIT_SECONDS = 0.1  # per poll of a pipe, for the same reason


@dataclass(frozen=True, slots=True)
class Limit:
    """An upper bound on an input.

    Attributes:
      name: what follows `GRAPHSEARCH_MAX_` in the environment variable that overrides it, unless `fixed`.
      default: in units. unit: BYTES, or the name of the unit. what: the limited thing.
    """

    name: str
    default: int
    unit: str
    what: str
    fixed: bool = False

    @property
    def variable(self) -> str:
        """The environment variable; empty if none overrides the limit."""
        return "" if self.fixed else PREFIX + self.name

    @property
    def most(self) -> int:
        """The limit in force.

        Raises:
          InvalidParameterError: if the environment variable is not a number (a size for BYTES) of at least 1.
        """
        text = os.environ.get(self.variable, "") if self.variable else ""
        if not text:
            return self.default
        try:
            found = byte_count(text) if self.unit == BYTES else whole_number(text)
        except InvalidParameterError as error:
            raise InvalidParameterError(f"{self.variable}: {error}") from None
        if found < 1:
            raise InvalidParameterError(f"{self.variable} must be at least 1, not {text}")
        return found

    @property
    def hint(self) -> str:
        """The end of an error message, which names the environment variable, if there is one."""
        return f"; {self.variable} sets another limit" if self.variable else ""

    def shown(self) -> str:
        """Returns the default as text for a person.

        >>> LINE.shown(), UNPACKED.shown(), SECONDS.shown()
        ('1 MiB', '100 times', '1,000,000,000 seconds')
        """
        return size_text(self.default) if self.unit == BYTES else f"{self.default:,} {self.unit}".rstrip()


# ------------------------------------------------------------------ files and streams
LINE = Limit("LINE", 1 << 20, BYTES, "one line of a text file")
FEN = Limit("FEN", 1 << 16, BYTES, "one FEN, or one EPD with its operations")
HEADERS = Limit("HEADERS", 1 << 20, BYTES, "all headers of one PGN game")
GAME = Limit("GAME", 1 << 28, BYTES, "the text of one PGN game")
GAME_MOVES = Limit("GAME_MOVES", 100_000, "moves", "one PGN game, variations included")
STUDIES = Limit("STUDIES", 1000, "games", "one import into studies")
STUDY_MOVES = Limit("STUDY_MOVES", 200_000, "moves", "one import into studies, and one study")
REPERTOIRE = Limit("REPERTOIRE", 50_000, "moves", "the repertoire of one side")
TOML = Limit("TOML", 1 << 20, BYTES, "a BOOK.toml")
TOML_KEY = Limit("TOML_KEY", 8, "parts", "a dotted key of a BOOK.toml", fixed=True)
NETWORK = Limit("NETWORK", 1 << 32, BYTES, "a network, packed or not")
ACTIVATIONS = Limit("ACTIVATIONS", 1 << 24, "numbers", "one position in one layer of an lc0 network")
BOOK = Limit("BOOK", 1 << 32, BYTES, "a Polyglot book")
PIPED = Limit("PIPED", 1 << 40, BYTES, "what comes through a pipe")
UNPACKED = Limit("UNPACKED", 100, TIMES, "the unpacked size against the packed one")
UNPACKED_FREE = Limit("UNPACKED_FREE", 1 << 26, BYTES, "what may unpack whatever the packed size")
WINDOW = Limit("WINDOW", 1 << 27, BYTES, "the window of a zstd frame")
UPLOAD = Limit("UPLOAD", 1 << 34, BYTES, "a file from the browser")
PASSWORD = Limit("PASSWORD", 1 << 12, BYTES, "a file with a password")

# ------------------------------------------------------------------ text and numbers
UCI_LINE = Limit("UCI_LINE", 1 << 20, BYTES, "one line of a chess program")
WHOLE = Limit("WHOLE", 10**18, "", "any whole number that is given", fixed=True)
SECONDS = Limit("SECONDS", 10**9, "seconds", "any time or number with a point that is given", fixed=True)
SIZE = Limit("SIZE", 1 << 50, BYTES, "any size that is given", fixed=True)
DIGITS = Limit("DIGITS", 40, "digits", "any number that is given", fixed=True)

LIMITS = tuple(one for one in list(globals().values()) if isinstance(one, Limit))


# ------------------------------------------------------------------ numbers
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_UNITS |= {f"{unit}I": 1024**power for power, unit in enumerate("KMGT", 1)}


def byte_count(text: str) -> int:
    """Returns the bytes of a size: a number with B, kB ... TB, KiB ... TiB or none, in any case.

    Raises:
      InvalidParameterError: for anything else, and for more than SIZE.

    >>> byte_count("256MB"), byte_count("1.5 GiB"), byte_count("4096")
    (256000000, 1610612736, 4096)
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?([KMGT]I?)?B?", text.strip().upper(), re.ASCII)
    if not found:
        raise InvalidParameterError(
            f"a size must be a number of bytes, or a text such as 512MB or 4GB, not {shortened(text)!r}"
        )
    number = float(found[1]) * _UNITS[found[2] or ""]
    if number > SIZE.most:
        raise InvalidParameterError(f"a size must be at most {SIZE.shown()}, not {shortened(text)}")
    return int(number)


def whole_number(text: str) -> int:
    """Returns a whole number written in ASCII digits, with or without a sign.

    Raises:
      InvalidParameterError: for anything else, and for more than DIGITS digits.

    >>> whole_number("-12")
    -12
    """
    if not re.fullmatch(rf"\s*[+-]?[0-9]{{1,{DIGITS.most}}}\s*", text):
        raise InvalidParameterError(f"expected a whole number, not {shortened(text)!r}")
    return int(text)


def size_text(count: int) -> str:
    """Returns a number of bytes as text for a person.

    >>> size_text(100), size_text(1 << 20), size_text(3 << 29)
    ('100 B', '1 MiB', '1.5 GiB')
    """
    power = min(5, int(math.log2(max(1, count))) // 10)
    return f"{count / 1024**power:.4g} {'B' if not power else 'KMGTP'[power - 1] + 'iB'}"


def shortened(text: str, most: int = 60) -> str:
    """Returns a text cut to `most` characters, for a message."""
    return text if len(text) <= most else text[:most] + "..."


# ------------------------------------------------------------------ files
OnWait = Callable[[], object]


def open_file(
    path: str | os.PathLike[str], *, piped: bool = False, on_wait: OnWait | None = None
) -> io.BufferedReader:
    """Opens a user's file for reading, with `piped` also a pipe, as in `<(zcat games.pgn.gz)`.

    Args:
      on_wait: called every WAIT_SECONDS while a pipe has nothing to read; it may raise to end the wait.

    Raises:
      InputFileError: if it is anything else, such as a directory or a device.
      OSError: if it cannot be opened.
    """
    check_kind(path, piped=piped)
    raw = _Input(path, opener=lambda name, flags: os.open(name, flags | system.WITHOUT_WAITING))
    raw.on_wait = on_wait
    try:  # the path may name another file by now
        _check_mode(os.fstat(raw.fileno()).st_mode, path, piped=piped)
    except BaseException:
        raw.close()
        raise
    return io.BufferedReader(raw, PIECE)


def check_kind(path: str | os.PathLike[str], *, piped: bool = False) -> None:
    """Raises as `open_file` would, without opening the file."""
    if "\0" in os.fspath(path):
        raise InputFileError("a file name with a NUL character cannot be opened")
    _check_mode(Path(path).stat().st_mode, path, piped=piped)


_KINDS = {"d": "directory", "p": "pipe", "s": "socket"}  # by the first letter of `ls -l`


def _check_mode(mode: int, path: str | os.PathLike[str], *, piped: bool) -> None:
    if not stat.S_ISREG(mode) and not (piped and stat.S_ISFIFO(mode)):
        kind = _KINDS.get(stat.filemode(mode)[0], "device")
        raise InputFileError(f"{os.fspath(path)} is a {kind}, expected a file")


class _Input(io.FileIO):
    """A file or a pipe, which waits for data in short steps, so that a signal can end the wait."""

    on_wait: OnWait | None = None

    def readinto(self, buffer: Any) -> int | None:
        while not system.is_readable(self.fileno(), WAIT_SECONDS):
            if self.on_wait:
                self.on_wait()
        return super().readinto(buffer)


def read_file(path: str | os.PathLike[str], most: Limit) -> bytes:
    """Returns all bytes of a file.

    Raises:
      InputFileError: as `open_file`, and if it has more bytes than the limit.
      OSError: if it cannot be read.
    """
    with open_file(path) as file:
        check_size(os.fstat(file.fileno()).st_size, most, path)
        return read_all(file, most, path)  # the file may grow, or report no size


def read_all(
    file: io.BufferedIOBase, most: Limit, name: str | os.PathLike[str], *, packed: int | None = None
) -> bytes:
    """Returns all bytes of an open file, read in steps.

    Args:
      packed: the compressed size, for `check_unpacked`; None if the file is not compressed.

    Raises:
      InputFileError: as `check_size` and `check_unpacked`.
    """
    parts, size = [], 0
    while piece := file.read(PIECE):
        parts.append(piece)
        size += len(piece)
        check_size(size, most, name)
        if packed is not None:
            check_unpacked(size, packed, name)
    return b"".join(parts)


def check_size(size: int, most: Limit, name: str | os.PathLike[str]) -> None:
    """Raises InputFileError if the size of a file, or of the part read so far, is above the limit."""
    if size > most.most:
        raise InputFileError(
            f"{os.fspath(name)} has more than {size_text(most.most)}, the most for {most.what}{most.hint}"
        )


def check_unpacked(unpacked: int, packed: int, name: str | os.PathLike[str]) -> None:
    """Raises InputFileError if data decompressed so far has a size that only a decompression bomb reaches."""
    if unpacked > UNPACKED_FREE.most + UNPACKED.most * packed:
        raise InputFileError(
            f"{os.fspath(name)} unpacks to more than {UNPACKED.most:,} times its size, which no file of games"
            f" or weights does{UNPACKED.hint}"
        )


def text_lines(file: BinaryIO, name: str) -> Iterator[str]:
    """Yields the lines of `byte_lines`, decoded by `decoded`."""
    for number, line in enumerate(byte_lines(file, name)):
        yield decoded(line if number else line.removeprefix(b"\xef\xbb\xbf"))


def byte_lines(file: BinaryIO, name: str) -> Iterator[bytes]:
    """Yields the lines of a text with their line ends.

    Raises:
      InputFileError: if a line is longer than LINE.
    """
    number, most, rest = 1, LINE.most, b""
    while piece := file.readline(most + 1):
        *lines, rest = _LINES.findall(rest + piece)
        if piece.endswith(b"\n"):
            lines, rest = [*lines, rest], b""
        for at, line in enumerate((*lines, rest), number):
            if len(line) > most:
                raise long_line(name, at)
        yield from lines
        number += len(lines)
    if rest:
        yield rest


_LINES = re.compile(rb"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+")  # a carriage return alone ends a line, too


def decoded(data: bytes) -> str:
    """Decodes a text as UTF-8, or as Windows-1252 if it is not UTF-8.

    >>> decoded("Pelé".encode()), decoded(bytes([80, 233, 32, 150]))
    ('Pelé', 'Pé –')
    """
    for encoding in ("utf-8", "cp1252"):
        with suppress(UnicodeDecodeError):
            return data.decode(encoding)
    return data.decode("latin-1")


def long_line(name: str, number: int) -> InputFileError:
    """Returns the error for a line that is too long."""
    return InputFileError(
        f"{name}, line {number}: it is too long to be text, more than {size_text(LINE.most)}{LINE.hint}"
    )


# ------------------------------------------------------------------ TOML: `tomllib` has no limits
_PART = r"""(?:[A-Za-z0-9_-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')"""
_LONG_KEY = rf"(?<![A-Za-z0-9_-]){_PART}(?:[ \t]*+\.[ \t]*+{_PART}){{{TOML_KEY.most}}}"


def toml_tables(text: str) -> dict[str, Any]:
    """Returns the tables of a TOML text.

    Raises:
      InputFileError: if it is larger than TOML, or has a key of more parts than TOML_KEY.
      ValueError, RecursionError: as `tomllib.loads`.
    """
    import tomllib

    text = text.removeprefix("\ufeff")  # editors of Windows write a byte order mark
    if len(text) > TOML.most:
        raise InputFileError(f"more than {size_text(TOML.most)}, the most for {TOML.what}{TOML.hint}")
    if long_key := re.search(_LONG_KEY, text):  # also inside strings: no name or move looks like such a key
        line = text.count("\n", 0, long_key.start()) + 1
        raise InputFileError(f"line {line}: a dotted key of more than {TOML_KEY.most} parts")
    return tomllib.loads(text)
