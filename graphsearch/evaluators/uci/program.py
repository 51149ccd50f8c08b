"""Finds an engine's program and arguments; reads the files of engines and networks."""

from __future__ import annotations

import hashlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from ...base.errors import EvaluatorError, EvaluatorFileError, InputFileError
from ...base.limits import NETWORK, open_file, read_file
from ...base.system import join_command, split_command

GAME_FOLDERS = ("/usr/games", "/usr/local/games")  # distributions install engines here; not on every PATH


@dataclass(frozen=True, slots=True)
class Program:
    """A program to start: the user's text, its file, and its arguments."""

    label: str
    path: Path
    arguments: tuple[str, ...]

    @property
    def command(self) -> list[str]:
        """The words of the command line."""
        return [str(self.path), *self.arguments]


def find_program(text: str) -> Program:
    """Returns the program of a command line such as `stockfish` or `"./lc0 --weights=x"`.

    It searches for a name without a folder on PATH, then in GAME_FOLDERS.

    Raises:
      EvaluatorError: if the file does not exist or is not executable.
    """
    try:
        words = command_words(text, Path(text).expanduser())
    except ValueError as error:
        raise EvaluatorError(f"the command {text!r} cannot be read: {error}") from None
    if not words:
        raise EvaluatorError("uci: needs the name or the path of an engine, such as uci:stockfish")
    name, arguments = words[0], tuple(words[1:])
    if Path(name).name != name:
        path = Path(name).expanduser()
        if not path.is_file():
            raise EvaluatorFileError(f"there is no engine {path}: expected the path of a UCI engine")
        if not os.access(path, os.X_OK):
            raise EvaluatorError(f"the engine {path} is not executable: expected a UCI engine's program")
        return Program(text, path.absolute(), arguments)
    found = shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", os.defpath), *GAME_FOLDERS]))
    if found is None:
        raise EvaluatorFileError(
            f"there is no engine {name!r} on PATH, nor in {' or '.join(GAME_FOLDERS)}; expected a UCI engine"
        )
    return Program(text, Path(found).absolute(), arguments)


def located(folder: Path, name: str) -> Path:
    """Returns the absolute path of a file name relative to a folder; expands `~`."""
    return (folder / os.path.expanduser(name)).absolute()  # noqa: PTH111 (pathlib's fails where there is none)


def located_command(folder: Path, command: str) -> str:
    """Returns a command with the absolute path of its program, unless that is a name without a folder.

    Raises:
      ValueError: if a quotation mark is missing.
    """
    first, *others = command_words(command, located(folder, command))
    if Path(first).name == first:
        return command
    path = os.fspath(located(folder, first))
    return join_command([path, *others]) if others else path


def command_words(text: str, whole: Path) -> list[str]:
    """Returns the words of a command, or the whole text if its path, `whole`, is a file's with its folder.

    Raises:
      ValueError: if a quotation mark is missing.
    """
    return [text] if Path(text).name != text and whole.is_file() else split_command(text)


def network_bytes(path: str | os.PathLike[str]) -> bytes:
    """Returns the content of a network's file; raises EvaluatorFileError if it cannot be read."""
    try:
        return read_file(Path(path).expanduser(), NETWORK)
    except InputFileError as error:
        raise EvaluatorFileError(str(error)) from None
    except OSError as error:
        raise EvaluatorFileError(f"the network {path} cannot be read: {error.strerror or error}") from None


def file_digest(path: Path) -> str:
    """Returns the SHA-256 of a file, hex; EvaluatorError if it cannot be read."""
    try:
        with open_file(path) as handle:
            return hashlib.file_digest(handle, "sha256").hexdigest()
    except OSError as error:
        raise EvaluatorError(f"{path} cannot be read: {error.strerror or error}") from None


def interpreter_of(path: Path) -> str:
    """Returns the interpreter line of a script; empty for any other program."""
    with open_file(path) as handle:
        first = handle.readline(256)
    return first[2:].decode(errors="replace").strip() if first.startswith(b"#!") else ""


def named_file(value: str, program: Program, *, given: bool) -> Path | None:
    """Returns the file that an option or argument names; None if there is none.

    A value from the user (`given`) may be relative to the current folder or to the program's folder; a
    default only to the latter, or the identity would depend on the current folder.
    """
    if not value:
        return None
    beside = program.path.resolve().parent
    for folder in (Path(), beside) if given else (beside,):
        path = folder / Path(value).expanduser()
        if path.is_file():
            return path
    return None
