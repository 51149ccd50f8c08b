"""Completes graph files, positions, moves and evaluators for a shell."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import typer

from .program import PROGRAM

VARIABLE = f"_{PROGRAM.upper()}_COMPLETE"  # set by the shell's completion script
GRAPHS = (".graph",)
GAMES = (".pgn", ".epd", ".fen", ".gz", ".zst")
NETWORKS = {"nnue": (".nnue",), "lc0": (".gz", ".onnx")}


def graph_files(incomplete: str) -> list[str]:
    """Returns the graph files that complete a word."""
    return list(_paths(incomplete, GRAPHS))


def positions(incomplete: str) -> list[str]:
    """Returns the positions that complete a word: names, files, and moves from the start position."""
    names = [name for name in ("startpos", "chess960:") if name.startswith(incomplete)]
    files = _paths(incomplete, (*GRAPHS, *GAMES))
    return [*names, *files, *(_lines("startpos", incomplete) if " " in incomplete else ())]


def moves(ctx: typer.Context, incomplete: str) -> list[str]:
    """Returns the lines that complete a line by one legal move."""
    start = ctx.params.get("position")
    return list(_lines(start if isinstance(start, str) else "startpos", incomplete))


def evaluators(incomplete: str) -> list[str]:
    """Returns the evaluators that complete a word, with the network files of this folder."""
    kind, colon, rest = incomplete.partition(":")
    if colon and kind in NETWORKS:
        return [f"{kind}:{path}" for path in _paths(rest, NETWORKS[kind])]
    names = ("builtin", "uniform", "nnue:stockfish", "nnue:", "lc0:", "uci:")
    return [name for name in names if name.startswith(incomplete)]


def _paths(incomplete: str, endings: tuple[str, ...]) -> Iterator[str]:
    """Yields the files with these endings, and the folders, with a path that begins with a text."""
    folder, slash, name = incomplete.rpartition("/")
    above = Path(f"{folder}/") if slash else Path()
    try:
        found = sorted(above.iterdir())
    except OSError:
        return
    for path in found:
        if path.name.startswith(name) and (not path.name.startswith(".") or name.startswith(".")):
            if path.suffix in endings:
                yield f"{folder}{slash}{path.name}"
            elif path.is_dir():
                yield f"{folder}{slash}{path.name}/"


def _lines(start: str, text: str) -> Iterator[str]:
    from graphsearch.base.errors import InvalidPositionError
    from graphsearch.position.notation import read_position

    played, space, begun = text.rpartition(" ")
    try:
        board = read_position(start, moves=played).board
    except InvalidPositionError:
        return
    for san in sorted(map(board.san, board.legal_moves)):
        if san.startswith(begun):
            yield f"{played}{space}{san}"


def answer_shell() -> None:
    """Enables Typer's answers to a shell's completion requests."""
    import_module("typer.completion").completion_init()  # typer does not export it
