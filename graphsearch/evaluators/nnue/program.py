"""Gets the network of an engine once (`export_net`), then from the cache folder.

networks/HASH.nnue       a network; HASH is its SHA-256
networks/PROGRAM.txt     the HASH of a program's network; PROGRAM is a SHA-256 of program and arguments
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

from ...base.errors import EvaluatorError
from ...jit.cache import cache_folder, read_regular, write_whole
from ..uci.program import Program, file_digest, find_program
from .file import Network, read_network
from .layout import NNUE_SUFFIX

EXPORT_SECONDS = 60.0
LARGE, SMALL = f"large{NNUE_SUFFIX}", f"small{NNUE_SUFFIX}"
# From 16.1 on Stockfish has a second, small network, and requires a file name for it. It evaluates lopsided
# positions faster, not better; we do not use it.
REQUEST = f"export_net {LARGE} {SMALL}\nquit\n"


def network_of(text: str) -> Network:
    """Returns the network of a `.nnue` file, or of a program such as `stockfish`.

    Raises:
      EvaluatorError: if the file or program does not exist, or has no network of a known architecture.
    """
    path = Path(text).expanduser()
    if path.suffix == NNUE_SUFFIX or (path.is_file() and "/" in text and not _is_executable(path)):
        return read_network(path)
    program = find_program(text)
    folder = cache_folder("networks")
    if folder is None:
        with tempfile.TemporaryDirectory() as temporary:
            return _exported(program, Path(temporary))
    return _cached(program, folder) or _exported(program, folder)


def _is_executable(path: Path) -> bool:
    return shutil.which(path) is not None


def _hash_file(program: Program, folder: Path) -> Path:
    whole = " ".join([file_digest(program.path), *program.arguments])
    return folder / f"{hashlib.sha256(whole.encode()).hexdigest()}.txt"


def _cached(program: Program, folder: Path) -> Network | None:
    """Returns a program's network from the cache; None if it is missing or its hash does not match."""
    try:
        digest = read_regular(_hash_file(program, folder), owned=True).decode("ascii").strip()
        network = read_network(folder / f"{digest}{NNUE_SUFFIX}")
    except (OSError, ValueError, EvaluatorError):
        return None
    return network if network.sha256 == digest else None


def _exported(program: Program, folder: Path) -> Network:
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        _export(program, Path(temporary))
        given = Path(temporary, LARGE)
        if not given.is_file():
            raise EvaluatorError(
                f"the program {program.label} gave no network when asked to (export_net): Stockfish 15.1 to"
                f" 17.1 do; a network in a file is nnue:FILE{NNUE_SUFFIX}"
            )
        network = read_network(given)
        with suppress(OSError):  # if that path is a folder, the network is not cached
            given.replace(folder / f"{network.sha256}{NNUE_SUFFIX}")
    write_whole(_hash_file(program, folder), f"{network.sha256}\n".encode())
    return network


def _export(program: Program, folder: Path) -> None:
    nowhere = subprocess.DEVNULL
    try:
        subprocess.run(  # noqa: S603
            program.command,
            input=REQUEST.encode(),
            stdout=nowhere,
            stderr=nowhere,
            cwd=folder,
            timeout=EXPORT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise EvaluatorError(
            f"the program {program.label} gave no network within {EXPORT_SECONDS:.0f} s"
        ) from None
    except OSError as error:
        raise EvaluatorError(
            f"the program {program.label} cannot be started: {error.strerror or error}"
        ) from None
