"""Graphs to export, and what exports have to hold, found another way: python-chess, recursion, digests.

`python -m tests.exchange.exported --write` makes the digests anew.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import compress
from pathlib import Path
from typing import Any

import chess
import chess.polyglot
import numpy as np
import pytest

from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.exchange import exports, importing, imports, output
from graphsearch.exchange.selection import Selection
from graphsearch.position.board import after, board_of, key_of, key_text, legal_moves, pack
from graphsearch.position.values import draw_beside, wdl_from_q
from graphsearch.store.ranking import node_mean, ranking, resets_of
from graphsearch.store.record import Edge, NodeRecord
from graphsearch.store.store import Store

from ..query.handmade import add_book, execute, node
from ..store.records import lookup
from ..support.graphs import ENDGAME, searched

CASTLES = "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1"
CHESS960 = "1r1k2rr/p2bbp1p/8/8/8/8/P2BBP1P/RR2K1RR w BGbg - 3 20"  # inner and outer rooks; castling at once
PROMOTES = "8/PPPk4/8/8/8/8/4Kppp/8 b - - 0 40"
LINES = ("", "e4", "d4 Nf6", "Nf3 Nf6 d4", "e4 e5 Nf3")  # transpositions

made_record = node  # of a position with these (n, q) of moves in SAN
Known = dict[int, tuple[chess.Board, NodeRecord]]
Rows = list[dict[str, Any]]
TERMINALS = {1: "checkmate", 2: "stalemate", 3: "draw by insufficient material"}


def imported(form: str, path: Path, data: str | bytes, **options: Any) -> importing.FileReport:
    """Imports a file `some.FORM` with these data from a stream."""
    stream = io.BytesIO(data.encode() if isinstance(data, str) else data)
    [report] = imports.import_files(form, path, [importing.GivenFile(f"some.{form}", stream)], **options)
    return report


def uniform_graph(path: Path, nodes: int) -> Path:
    """Returns a file of about so many nodes below the start position."""
    with Graph.open(path, evaluator="uniform") as graph:
        analyze(graph, chess.Board(), Limits(visits=nodes), SearchParams(minibatch_size=1024))
    return path


def known_below(path: Path, *fens: str) -> Known:
    """Returns (board, record) by key of what visited edges lead to, the shortest way first."""
    found: Known = {}
    with Store.open(path, read_only=True) as store:
        layer = [board_of(fen) for fen in fens or [chess.STARTING_FEN]]
        while layer:
            is_there, batch = lookup(store, np.array([pack(board) for board in layer]))
            below = []
            for i, board in enumerate(compress(layer, is_there.tolist())):
                if (key := key_of(board)) not in found:
                    found[key] = (board, record := batch.record(i))
                    below += [after(board, move) for move, edge in edges(board, record) if edge.n > edge.r]
            layer = [board for board in below if key_of(board) not in found]
    return found


def edges(board: chess.Board, record: NodeRecord) -> list[tuple[chess.Move, Edge]]:
    moves = legal_moves(board) if record.codes else []
    return [(moves[record.order[k]], edge) for k, edge in enumerate(record.edges) if edge.n]


def node_row(board: chess.Board, record: NodeRecord, evaluators: dict[int, str]) -> dict[str, Any]:
    moves = legal_moves(board) if record.codes else []
    order = ranking(record, board.halfmove_clock, resets_of(record, board, moves)) if moves else []
    best = moves[record.order[order[0]]] if moves else None
    q, draws = node_mean(record)
    proof = record.proof_at(board.halfmove_clock)
    fields = board.fen(en_passant="legal").split()[:3]
    return {
        "key": key_of(board),
        "rooks": rooks_of(board),
        "key_hex": key_text(board),
        "fen": " ".join([*fields, board.fen().split()[3], str(board.halfmove_clock), "1"]),
        "turn": "w" if board.turn else "b",
        "clock": board.halfmove_clock,
        "ply": None,
        "depth": None,
        "n": record.visits,
        "q": q,
        **dict(zip(("win", "draw", "loss"), wdl_from_q(q, draws), strict=True)),
        "v": record.v,
        "v_draw": record.v_draw,
        "lower": record.bounds[0],
        "upper": record.bounds[1],
        "mate": proof.moves if proof else None,
        "terminal": TERMINALS.get(record.terminal),
        "moves": len(moves),
        "best_move": best and best.uci(),
        "best_san": best and board.san(best),
        "evaluator": record.evaluator,
        "evaluator_name": evaluators[record.evaluator] if record.evaluator else "rules",
        "run": record.run or None,
    }


def rooks_of(board: chess.Board) -> int:
    """Returns the four digits that say which rooks may castle, where that is not standard."""
    return int(key_text(board)[16:] or "0", 16)


def edge_rows(board: chess.Board, record: NodeRecord) -> Rows:
    moves = legal_moves(board) if record.codes else []
    order = ranking(record, board.halfmove_clock, resets_of(record, board, moves)) if moves else []
    ranks = {record.order[k]: rank for rank, k in enumerate(order, 1)}
    places = {index: k for k, index in enumerate(record.order)}
    rows = []
    for index, move in enumerate(moves):
        edge = record.edges[places[index]] if places[index] < len(record.edges) else None
        proof = edge.proof if edge else None
        holds = proof is not None and proof.holds_at(board.halfmove_clock)
        child = after(board, move)
        rows.append(
            {
                "key": key_of(board),
                "rooks": rooks_of(board),
                "move": move.uci(),
                "san": board.san(move),
                "rank": ranks[index],
                "child": key_of(child),
                "child_rooks": rooks_of(child),
                "n": edge.n if edge else 0,
                "r": edge.r if edge else 0,
                "p": record.priors[index],
                "q": edge.value if edge and edge.n else None,
                "draw": draw_beside(edge.value, edge.draws) if edge and edge.n else None,
                "lower": edge.bounds[0] if edge else -1,
                "upper": edge.bounds[1] if edge else 1,
                "mate": 1 if child.is_checkmate() else proof.moves if proof and holds else None,
            }
        )
    return rows


def check_rows(found: Rows, expected: Rows) -> None:
    """Asserts that rows are equal, numbers to the precision of a float32."""
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert list(one) == list(other)
        numbers = {name for name, value in other.items() if isinstance(value, float)}
        assert {k: v for k, v in one.items() if k not in numbers} == {
            k: v for k, v in other.items() if k not in numbers
        }
        for name in numbers:
            assert one[name] == pytest.approx(other[name], abs=1e-6), (name, other["key"])


def run_polyglot(folder: Path, *args: str | Path) -> None:
    """Runs Debian's program `polyglot` in a folder; skips the test where there is none."""
    program = shutil.which("polyglot", path=f"{os.environ.get('PATH', '')}:/usr/games")
    if program is None:
        pytest.skip("needs the program polyglot")
    subprocess.run([program, *args], cwd=folder, capture_output=True, check=True, timeout=60)


def add_games(path: Path, games: Mapping[str, tuple[int, ...]]) -> None:
    """Writes imported games: a line -> games that White won, drawn, that Black won, of unknown result."""
    counts: dict[tuple[str, str], list[Any]] = {}
    for line, results in games.items():
        board = chess.Board()
        for san in line.split():
            move = board.parse_san(san)
            row = counts.setdefault((f"{key_of(board):016x}", move.uci()), [san, 0, 0, 0, 0])
            for k, number in enumerate(results):
                row[1 + k] += number
            board.push(move)
    execute(
        path,
        "INSERT INTO game_move (key, move, san, white, draws, black, unknown) VALUES (?, ?, ?, ?, ?, ?, ?)",
        [(*key, *row) for key, row in counts.items()],
    )


# ------------------------------------------------------------------ digests of what exports write
PATH = Path(__file__).parents[1] / "golden" / "exports.json"
MATES = "6k1/5p1p/6p1/8/8/8/r4PPP/3R2K1 b - - 0 30"
LATE = "8/8/4k3/8/8/4K3/4P3/R6r w - - 70 80"  # clocks beyond 75 are part of a position
FILES = {
    "lines": (chess.STARTING_FEN, LINES, 60),
    "endgame": (ENDGAME, ("", "Ra6", "Kd4"), 60),
    "late": (LATE, ("",), 120),
    "mates": (MATES, ("",), 120),
    "castles": (CASTLES, ("",), 80),
    "chess960": (CHESS960, ("",), 80),
    "promotions": (PROMOTES, ("",), 100),
}
LIMITS: list[dict[str, Any]] = [
    {},
    {"side": "black", "max_moves": 1},
    {"depth": 2, "min_visits": 2},
    {"depth": 0},
]
BOOK = {
    "e4": 0.1,
    "e4 e5 Nf3": 0.15,
    "d4 Nf6 Nf3": -0.1,
    "Nf3 Nf6 d4": -0.1,
    "a3 a6 h3 h6": 0.2,  # beyond the graph
    "f3 e5 g4 Qh4#": 0.9,
    "Nf3 Nf6 Ng1 Ng8": 0.0,
}
GAMES = {
    "e4": (3, 1, 0),
    "d4": (0, 0, 2),
    "e4 e5 Nf3": (5, 2, 1, 1),
    "a3 a6": (1, 0, 0),
    "b4 b5 a3": (70_000, 3, 0),
}
EXPORTS: dict[str, Callable[..., output.ExportReport]] = {
    **{form: partial(exports.export, form) for form in ("epd", "jsonl", "csv", "pgn")},
    **{f"polyglot {weights}": partial(exports.export, "polyglot", weights=weights) for weights in ("n", "q")},
}


def make_graph(path: Path, name: str) -> Path:
    """Returns a file of a search, one of them with imported games and a book."""
    fen, lines, visits = FILES[name]
    searched(path, fen, *lines, visits=visits)
    if name == "lines":
        add_games(path, GAMES)
        add_book(path, "some", "white", [chess.STARTING_FEN], BOOK)
    return path


def selections() -> Iterator[Selection]:
    """Yields what is exported of the file with games and a book."""
    yield from (Selection(**limits) for limits in LIMITS)
    yield Selection(roots=(chess.Board(),), min_visits=3)
    yield from (Selection(book="some"), Selection(book="some", **LIMITS[1]))
    yield Selection(book="some", roots=(chess.Board(),), side="both")


def result_of(form: str, path: Path, out: Path, selection: Selection) -> tuple[Any, bytes]:
    """Returns the report of an export without what differs, and its output; the error if it fails."""
    out.unlink(missing_ok=True)
    if form in ("jsonl", "csv"):
        selection = replace(selection, all_moves=True)
    try:
        report = EXPORTS[form](path, out, selection).as_dict()
    except Exception as error:  # part of the result
        return f"{type(error)} {error}".replace(str(path), ""), b""
    data = re.sub(rb'\[Date "[^"]*"\]', b"", out.read_bytes())
    return {name: report[name] for name in report if name not in ("seconds", "path")}, data


def digests(path: Path, name: str, folder: Path) -> dict[str, str]:
    if name != "lines":
        return {form: _digest(form, path, folder, Selection()) for form in EXPORTS}
    return {form: _digest(form, path, folder, *selections()) for form in EXPORTS}


def _digest(form: str, path: Path, folder: Path, *chosen: Selection) -> str:
    digest = hashlib.sha256()
    for selection in chosen:
        report, data = result_of(form, path, folder / "out", selection)
        digest.update(json.dumps(report).encode() + data)
    return digest.hexdigest()[:16]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = {
            name: digests(make_graph(Path(folder) / f"{name}.graph", name), name, Path(folder))
            for name in FILES
        }
    text = json.dumps(found, indent=1) + "\n"
    if sys.argv[1:] == ["--write"]:
        PATH.write_text(text)
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
