"""`export --format parquet`: what the tables say, against python-chess and the records themselves."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from pathlib import Path
from typing import Any

import chess
import pytest

from graphsearch.base.errors import ExportError
from graphsearch.exchange.exports import export
from graphsearch.exchange.rows_export import EDGES, NODES, Table
from graphsearch.exchange.selection import Selection
from graphsearch.position.board import key_of, key_text, legal_moves, unpack
from graphsearch.position.values import wdl_from_q
from graphsearch.store.ranking import node_mean, ranking, resets_of
from graphsearch.store.record import NodeRecord
from graphsearch.store.store import Store

from ..conftest import ROOT, Cli
from ..store.records import held
from ..store.test_damage import flip
from ..support.forks import Fork, needs_fork
from .exported import CASTLES, ENDGAME, PROMOTES, add_book, after, searched

parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow: pip install '.[parquet]'")

MATES = "kbK5/pp6/1P6/8/8/8/8/R7 w - - 0 1"  # in four
LATE = "8/8/8/8/8/k1K5/7q/8 b - - 94 90"  # the 50-move rule is near
TERMINALS = {1: "checkmate", 2: "stalemate", 3: "draw by insufficient material"}
Rows = list[dict[str, Any]]


def read(folder: Path) -> tuple[Rows, Rows]:
    """Returns the rows of both tables."""
    return parquet.read_table(folder / NODES).to_pylist(), parquet.read_table(folder / EDGES).to_pylist()


def records(path: Path) -> list[tuple[chess.Board, NodeRecord]]:
    """Returns every record of a file in its order."""
    return [(unpack(record.words), record) for record in held(path).values()]


def node_row(board: chess.Board, record: NodeRecord, evaluators: dict[int, str]) -> dict[str, Any]:
    """Returns what a row of the nodes must be."""
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
        **dict(zip(("win", "draw", "loss"), wdl_from_q(q, draws).as_list(), strict=True)),
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
    """Returns what the rows of its moves must be."""
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
                "draw": edge.draws if edge and edge.n else None,
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


@pytest.mark.parametrize("fen", [ENDGAME, CASTLES, PROMOTES, MATES, LATE])
def test_every_row_is_what_the_record_says(fen: str, tmp_path: Path) -> None:
    path = searched(tmp_path / "some.graph", fen, visits=200 if fen == MATES else 30)
    report = export("parquet", path, tmp_path / "tables", Selection(all_moves=True))
    nodes, edges = read(tmp_path / "tables")
    known = records(path)
    with Store.open(path, read_only=True) as store:
        names = {number: identity.describe() for number, identity in store.evaluators().items()}
    check_rows(nodes, [node_row(board, record, names) for board, record in known])
    check_rows(edges, [row for board, record in known for row in edge_rows(board, record)])
    assert (report.positions, report.moves) == (len(nodes), len(edges))
    assert (report.positions > 20, report.left_out.total()) == (True, 0)
    if fen == MATES:
        assert sum(row["mate"] is not None for row in nodes) > 2
        assert any(row["mate"] not in (None, 1) for row in edges)


def test_a_walk_takes_what_the_other_exports_take(tmp_path: Path) -> None:
    path = searched(tmp_path / "some.graph", visits=70)
    for selection in (
        Selection(depth=2),
        Selection(depth=2, all_moves=True),
        Selection(side="white", max_moves=2),
        Selection(roots=(chess.Board(),), min_visits=3),
    ):
        export("jsonl", path, tmp_path / "rows.jsonl", selection)
        report = export("parquet", path, tmp_path / "tables", selection)
        nodes, edges = read(tmp_path / "tables")
        wanted = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
        assert [(row["key_hex"], row["fen"], row["ply"], row["depth"], row["n"]) for row in nodes] == [
            (row["key"], row["fen"], row["ply"], row["depth"], row["n"]) for row in wanted
        ]
        assert sorted((f"{row['key']:016x}", row["move"], row["n"]) for row in edges) == sorted(
            (row["key"], move["move"], move["n"]) for row in wanted for move in row["moves"]
        )
        assert report.moves == len(edges)


def test_visits_choose_rows_of_a_whole_file(tmp_path: Path) -> None:
    path = searched(tmp_path / "some.graph", visits=70)
    report = export("parquet", path, tmp_path / "tables", Selection(min_visits=3))
    nodes, edges = read(tmp_path / "tables")
    known = [(board, record) for board, record in records(path) if record.visits >= 3]
    assert [row["key"] for row in nodes] == [key_of(board) for board, _ in known]
    expected = [row for board, record in known for row in edge_rows(board, record) if row["n"] >= 3]
    check_rows(edges, expected)
    assert report.left_out["few_visits"] == len(records(path)) - len(known) > 0
    assert report.left_out["moves_few_visits"] == sum(0 < e.n < 3 for _, r in known for e in r.edges) > 0


def test_a_position_of_a_book_that_the_graph_lacks_has_a_key_and_nothing_else(tmp_path: Path) -> None:
    path = searched(tmp_path / "some.graph", visits=40)
    add_book(path, "mine", "white", [chess.STARTING_FEN], {"e4": 0.1, "e4 a5 h4 Na6": 0.2})
    export("parquet", path, tmp_path / "tables", Selection(book="mine", side="both"))
    nodes, edges = read(tmp_path / "tables")
    assert {row["move"] for row in edges if row["key"] == key_of(chess.Board())} == {"e2e4"}
    unknown = [row for row in nodes if row["n"] is None]
    assert unknown
    for row in unknown:
        assert row["key"] == key_of(chess.Board(row["fen"]))
        assert {row[name] for name in ("q", "v", "best_move", "evaluator", "lower", "mate")} == {None}


def test_rows_are_written_in_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = searched(tmp_path / "some.graph", visits=60)
    export("parquet", path, tmp_path / "one")
    for name in ("walk.BATCH", "rows_export.NODES_PER_GROUP", "rows_export.EDGES_PER_GROUP"):
        monkeypatch.setattr(f"graphsearch.exchange.{name}", 16)
    export("parquet", path, tmp_path / "many")
    assert parquet.ParquetFile(tmp_path / "many" / NODES).num_row_groups > 2
    assert read(tmp_path / "one") == read(tmp_path / "many")


def test_columns_are_typed_and_documented_as_they_are(tmp_path: Path) -> None:
    path = searched(tmp_path / "some.graph", visits=20)
    export("parquet", path, tmp_path / "tables")
    page = (ROOT / "schema" / "exports.md").read_text(encoding="utf-8")
    for file in (NODES, EDGES):
        schema = parquet.read_schema(tmp_path / "tables" / file)
        columns = [(one.name, re.sub("dictionary.*", "text", str(one.type))) for one in schema]
        section = page.partition(f"`{file}`, ")[2].partition("\n\n")[2].partition("\n\n")[0]
        told = [line.split("|")[1:3] for line in section.splitlines()[2:]]
        assert [
            (name.strip(" `"), kind.strip().replace("float32", "float")) for name, kind in told
        ] == columns
        assert json.loads(schema.metadata[b"graphsearch"])["program"] == "graphsearch"


# ------------------------------------------------------------------ the folder
def test_only_tables_of_before_are_replaced(cli: Cli, tmp_path: Path) -> None:
    path = searched(tmp_path / "some.graph", visits=20)
    export = ("export", "--format", "parquet", "--store", path, "-o")
    for _ in range(2):
        done = cli(*export, tmp_path / "tables", "--json")
        assert (done.code, done.json["form"]) == (0, "parquet"), done.err
    assert {entry.name for entry in tmp_path.iterdir()} == {"some.graph", "tables"}
    (tmp_path / "tables" / "notes.txt").write_text("mine")
    for target, what in (
        (tmp_path / "tables", "holds other files"),
        (path, "is a file; name a folder"),
        (tmp_path / "no" / "tables", "make this folder first"),
    ):
        done = cli(*export, target)
        assert (done.code, what in done.err.splitlines()[-1]) == (2, True), done.err
    assert (tmp_path / "tables" / "notes.txt").read_text() == "mine"
    done = cli(*export, tmp_path / "none", "8/8/4k3/8/8/4K3/4P3/8 w - - 0 1")
    assert (done.code, (tmp_path / "none").exists()) == (1, False)
    assert "nothing to export" in done.err.splitlines()[-1]


def test_damage_is_told_and_the_rest_is_written(cli: Cli, tmp_path: Path) -> None:
    path = searched(tmp_path / "some.graph", visits=400)
    whole = export("parquet", path, tmp_path / "whole")
    flip(path, "block", "data", 3, 50)
    done = cli("export", "--format", "parquet", "--store", path, "-o", tmp_path / "tables", "--json")
    assert (done.code, "block 3: checksum" in done.err) == (1, True)
    nodes, _ = read(tmp_path / "tables")
    assert 0 < len(nodes) == done.json["positions"] < whole.positions


def test_a_missing_package_is_named_with_what_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = searched(tmp_path / "some.graph", visits=4)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(ExportError, match=r"pyarrow .*pip install '\.\[parquet\]'"):
        export("parquet", path, tmp_path / "tables")
    assert not (tmp_path / "tables").exists()


@needs_fork
def test_a_killed_export_leaves_the_tables_of_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = searched(tmp_path / "some.graph", visits=60)
    export("parquet", path, tmp_path / "tables", Selection(min_visits=9))
    before = read(tmp_path / "tables")
    monkeypatch.setattr(Table, "_flush", lambda table: os.kill(os.getpid(), signal.SIGKILL))
    with Fork(lambda _: export("parquet", path, tmp_path / "tables")) as fork:
        fork.rest()
    assert fork.status == -signal.SIGKILL
    assert read(tmp_path / "tables") == before
