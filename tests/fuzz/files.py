"""What the program does with a graph file that may be anything."""

from __future__ import annotations

import random
import shutil
import zlib
from pathlib import Path

import chess

from graphsearch.base.errors import GraphSearchError
from graphsearch.position.board import NOT_TERMINAL, legal_moves, terminal_kind, unpack
from graphsearch.store.store import Store
from graphsearch.store.verify import verify
from tests.store.records import faults_of

from . import commands
from .graphfile import MATE, unpacked

SOME = 4  # command lines for each file
WRITTEN = ("copy.graph", "merged.graph")  # by commands that only read the file

# With {} in place of the file. Those below the line write it.
READ = (
    ("show", "startpos", "--store", "{}"),
    ("store", "info", "{}", "--json"),
    ("games", "startpos", "--store", "{}"),
    ("novelties", "startpos", "--min-games", "1", "--min-visits", "2", "--store", "{}"),
    ("novelties", "--book", "white", "--min-games", "1", "--store", "{}", "--json"),
    ("prepare", "--player", "ann", "--min-visits", "1", "--store", "{}"),
    ("prepare", "--player", "bob", "--book", "white", "--store", "{}", "--json"),
    ("history", "{}", "startpos", "--json"),
    ("lines", "startpos", "--lines", "3", "--store", "{}"),
    ("tree", "startpos", "--store", "{}"),
    ("curve", "startpos", "--moves", "d4 d5", "--store", "{}"),
    ("find", "--min-visits", "2", "--store", "{}", "--json"),
    ("find", "--pieces", "Q=1", "--store", "{}"),
    ("lab", "sql", "SELECT * FROM position_moves", "--store", "{}", "--json"),
    ("lab", "sql", "SELECT record(fen), cp(q) FROM top_position", "--store", "{}"),
    ("book", "status", "--store", "{}"),
    ("book", "todo", "--book", "white", "--store", "{}"),
    ("book", "why", "startpos", "--book", "white", "--moves", "d4", "--store", "{}"),
    ("book", "queue", "--kind", "all", "--store", "{}"),
    ("study", "list", "--store", "{}"),
    ("study", "export", "--store", "{}"),
    ("note", "startpos", "--store", "{}"),
    ("note", "--store", "{}", "--json"),
    ("repertoire", "show", "--store", "{}"),
    ("lab", "nodetypes", MATE, "--store", "{}"),
    ("export", "--format", "pgn", "--store", "{}", "-o", "out.pgn", "--depth", "3"),
    ("export", "--format", "epd", "--store", "{}", "-o", "out.epd"),
    ("export", "--format", "csv", "--store", "{}", "-o", "out.csv"),
    ("export", "--format", "jsonl", "--store", "{}", "-o", "out.jsonl", "--book", "white"),
    ("export", "--format", "parquet", "--store", "{}", "-o", "tables"),
    ("export", "--format", "polyglot", "--store", "{}", "-o", "out.bin"),
    ("export", "--format", "polyglot", "--store", "{}", "-o", "out.bin", "--weights", "q"),
    ("store", "backup", "{}", "copy.graph"),
    ("store", "merge", "{}", "{}", "-o", "merged.graph", "--force"),
    ("diff", "{}", "{}", "--json"),
    ("diff", "{}", "--since", "1"),
)
WRITE = (
    ("analyze", "startpos", "--visits", "8", "--ram", "64MB", "--store", "{}"),
    ("analyze", MATE, "--visits", "8", "--ram", "64MB", "--store", "{}"),
    ("alphabeta", "startpos", "--depth", "1", "--ram", "8MB", "--store", "{}"),
    ("mate", MATE, "--visits", "20", "--store", "{}"),
    ("lab", "refresh", "{}", "--ram", "64MB"),
    ("reevaluate", "{}", "--evaluator", "uniform", "--ram", "64MB"),
    ("store", "compact", "{}"),
    ("store", "merge", "twin.graph", "--into", "{}", "--ram", "64MB"),
    ("store", "compact", "{}", "--min-visits", "2"),
    ("book", "queue", "startpos", "--store", "{}"),
    ("study", "import", "a.pgn", "--store", "{}"),
    ("note", "startpos", "--text", "a note", "--store", "{}"),
    ("repertoire", "add", "1. e4 e5", "--side", "white", "--store", "{}"),
    ("book", "build", "white.toml", "--evaluations", "16", "--ram", "64MB", "--store", "{}"),
    ("import", "--format", "epd", "a.epd", "--store", "{}"),
    ("review", "a.pgn", "--visits", "10", "--ram", "64MB", "--store", "{}", "-o", "out.pgn"),
    ("analyze", "a.epd", "--visits", "10", "--ram", "64MB", "--store", "{}", "-o", "out.epd"),
    ("watch", "{}", "1. e4", "--evaluations", "20", "--ram", "64MB"),
)


class DisagreementError(Exception):
    """The program says two things that cannot both be true."""


def exercise(data: bytes, folder: Path) -> bool:
    """Reads, checks, searches, asks and rescues a graph file; returns whether it was found sound."""
    path = folder / "a.graph"
    database, log = unpacked(data)
    path.write_bytes(database)
    if log:
        path.with_name("a.graph-wal").write_bytes(log)
    rng = random.Random(zlib.crc32(data))
    report = verify(path)
    if report.ok:
        _check_records(path)
    for line in (*rng.sample(READ, SOME - 1), rng.choice(WRITE)):
        _command(line, path, folder)
    _rescue(path, folder)
    if report.ok:
        _check_written(folder)
        after = verify(path)
        if not after.ok:
            raise DisagreementError(f"sound before the commands, not after them: {after.problems[:2]}")
    return report.ok


def _command(line: tuple[str, ...], path: Path, folder: Path) -> None:
    from .graphfile import BOOK, EPD, PGN

    (folder / "white.toml").write_bytes(BOOK)
    (folder / "a.epd").write_bytes(EPD)
    shutil.copyfile(path, folder / "twin.graph")
    (folder / "a.pgn").write_bytes(PGN)
    names = {"out.", "copy.", "merged.", "parts.", "tables", "twin.graph", "white.toml", "a.epd", "a.pgn"}
    words = [
        str(path) if word == "{}" else str(folder / word) if any(word.startswith(n) for n in names) else word
        for word in line
    ]
    try:
        commands.run(*words)
    except Exception as error:
        error.add_note(f"graphsearch {' '.join(words)}")
        raise


def _check_records(path: Path) -> None:
    """Compares every record of a file that is said to be sound with the rules of python-chess."""
    with Store.open(path, read_only=True) as store:
        for batch in store.scan():
            for i in range(len(batch)):
                record = batch.record(i)
                board = unpack(record.words)
                if not board.is_valid():
                    raise DisagreementError(f"sound, but {board.fen()} is illegal")
                if wrong := faults_of(record):
                    raise DisagreementError(f"sound, but {board.fen()}: {wrong}")
                _check_moves(board, record.terminal, len(record.codes))


def _check_moves(board: chess.Board, terminal: int, priors: int) -> None:
    kind = terminal_kind(board)
    moves = len(legal_moves(board)) if kind == NOT_TERMINAL else 0
    if (kind, moves) != (terminal, priors):
        raise DisagreementError(
            f"sound, but {board.fen()} has kind {terminal} and {priors} priors, not {kind} and {moves}"
        )


def _check_written(folder: Path) -> None:
    """Checks what commands have made of a sound file: it must be sound."""
    for name in WRITTEN:
        if (folder / name).exists() and not (report := verify(folder / name)).ok:
            raise DisagreementError(f"a sound file became an unsound {name}: {report.problems[:2]}")


def _rescue(path: Path, folder: Path) -> None:
    """Salvages the file; what comes out must be sound."""
    new = folder / "new.graph"
    try:
        if commands.run("store", "salvage", path, new).code:
            return
    except GraphSearchError:
        return
    if new.exists() and not (report := verify(new)).ok:
        raise DisagreementError(f"salvage left an unsound file: {report.problems[:2]}")
