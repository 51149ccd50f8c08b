"""UCI engines for tests: scripts that answer from the position alone, and go wrong where a test says."""

from __future__ import annotations

import sys
import zlib
from pathlib import Path

import chess
import pytest

HEAD = '''#!{python} -S
import os, pathlib, sys, time, zlib

sys.path.append({libraries!r})  # `site` would take as long as the rest of a start
HERE = pathlib.Path(__file__)
NAME = "Fake 1.0"
OPTIONS = [
    "Hash type spin default 1 min 1 max 64",
    "MultiPV type spin default 1 min 1 max 256",
    "Style type combo default Solid var Solid var Very Wild",
    "Clear Hash type button",
    "Book Lines type check default true",
    "Ponder type check default false",
]
values = {{}}


def say(*words):
    print(*words, flush=True)


def once(name):
    """True the first time, over all processes of this engine."""
    try:
        (HERE.parent / name).touch(exist_ok=False)
        return True
    except FileExistsError:
        return False


def cp_of(board):
    return zlib.crc32(board.board_fen().encode()) % 401 - 200


def info(board, k):
    if k == 1:
        return [f"info depth 5 score cp {{cp_of(board)}} pv {{next(iter(board.legal_moves))}}"]
    lines = []
    for number, move in enumerate(list(board.legal_moves)[:k], 1):
        child = board.copy()
        child.push(move)
        lines.append(f"info depth 5 multipv {{number}} score cp {{-cp_of(child)}} pv {{move}}")
    return lines


def go(board, words, k):
    for line in info(board, k):
        say(line)
    say("bestmove", next(iter(board.legal_moves)))


def handshake():
    say("id name", NAME)
    for option in OPTIONS:
        say("option name", option)
    say("uciok")


def main():
    log = (HERE.parent / "log").open("a", buffering=1)
    for line in sys.stdin:
        log.write(line)
        words = line.split()
        if words == ["uci"]:
            handshake()
        elif words == ["isready"]:
            say("readyok")
        elif words[0] == "setoption":
            name, _, value = line.partition(" name ")[2].strip().partition(" value ")
            values[name.lower()] = value
        elif words[0] == "position":
            import chess  # half of the time of a start

            board = chess.Board() if words[1] == "startpos" else chess.Board(" ".join(words[2:8]))
        elif words[0] == "go":
            go(board, words[1:], int(values.get("multipv", 1)))
        elif words == ["quit"]:
            break
'''


def fake_engine(folder: Path, changes: str = "") -> Path:
    """Returns a script that is a UCI engine; `changes` is Python that redefines parts of HEAD."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "engine"
    head = HEAD.format(python=sys.executable, libraries=str(Path(chess.__file__).parents[1]))
    path.write_text(f"{head}\n\n{changes}\n\nmain()\n")
    path.chmod(0o755)
    return path


def sent(path: Path) -> list[str]:
    """Returns all lines that a fake engine has read, over all its processes."""
    return (path.parent / "log").read_text().splitlines()


def cp_of(board: chess.Board) -> int:
    return zlib.crc32(board.board_fen().encode()) % 401 - 200


def stockfish() -> str:
    """Returns the path of Stockfish; skips the test where there is none."""
    path = Path("/usr/games/stockfish")
    if not path.exists():
        pytest.skip("Stockfish is not installed")
    return str(path)
