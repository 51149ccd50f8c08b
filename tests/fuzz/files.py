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

from . import commands
from .works import MATE, WORKS, Work, command_line, on, unpacked, write_inputs

SOME = 4  # command lines for each file
WRITTEN = ("copy.graph", "new.graph")  # by commands that only read the file

READ = [*(work for work in WORKS if work.start == "logged"), Work("diff", "diff {}/a.graph --since 1")]
READ += [
    on(line.split()[0], line, "logged")
    for line in (
        "games startpos", "novelties --book white --min-games 1 --json", "tree startpos",
        "prepare --player bob --book white --json", "curve startpos --moves 'd4 d5'", "find --pieces Q=1",
        "lab sql 'SELECT * FROM position_moves' --json", "book status", "book todo --book white",
        "lab sql 'SELECT record(fen), cp(q) FROM top_position'", "book why startpos --book white --moves d4",
        "book queue --kind all", "study list", "study export", "note startpos", "note --json",
        "repertoire show", f"lab nodetypes '{MATE}'", "export --format pgn -o {}/deep.pgn --depth 3",
        "export --format polyglot -o {}/q.bin --weights q",
    )
]  # fmt: skip
WRITE = [work for work in WORKS if work.start == "full"]


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
    write_inputs(folder)
    shutil.copyfile(path, folder / "b.graph")
    for work in (*rng.sample(READ, SOME - 1), rng.choice(WRITE)):
        _command(work, folder)
    _rescue(path, folder)
    if report.ok:
        _check_written(folder)
        after = verify(path)
        if not after.ok:
            raise DisagreementError(f"sound before the commands, not after them: {after.problems[:2]}")
    return report.ok


def _command(work: Work, folder: Path) -> None:
    words = command_line(work, folder)
    try:
        commands.run(*words, stdin=work.lines)
    except Exception as error:
        error.add_note(f"graphsearch {' '.join(words)}")
        raise


def _check_records(path: Path) -> None:
    """Compares every record of a file that is said to be sound with the rules of python-chess."""
    with Store.open(path, read_only=True) as store:
        for batch in store.scan():
            for record in map(batch.record, range(len(batch))):
                board = unpack(record.words)
                if not board.is_valid():
                    raise DisagreementError(f"sound, but {board.fen()} is illegal")
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
    new = folder / "rescued.graph"
    try:
        if commands.run("store", "salvage", path, new).code:
            return
    except GraphSearchError:
        return
    if new.exists() and not (report := verify(new)).ok:
        raise DisagreementError(f"salvage left an unsound file: {report.problems[:2]}")
