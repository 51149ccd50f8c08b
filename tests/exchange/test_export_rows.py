"""EPD, JSON lines and CSV: what is written is what the records say, and enough to make N, P and Q of it."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import chess
import pytest

from graphsearch.exchange.exports import export
from graphsearch.exchange.rows_export import COLUMNS
from graphsearch.exchange.selection import Selection
from graphsearch.position.board import key_of, legal_moves, terminal_kind
from graphsearch.position.values import cp_of
from graphsearch.store.ranking import edge_of, has_best_move, node_mean, ranking
from graphsearch.store.record import NodeRecord

from ..conftest import Cli
from ..store.records import filled
from .exported import ENDGAME, PROMOTES, add_book, add_games, after, known_below, made_record, searched

MATES = "6k1/5p1p/6p1/8/8/8/r4PPP/3R2K1 b - - 0 30"  # Black, to move, must not lose at once
FENS = (ENDGAME, MATES, PROMOTES)


@pytest.fixture(scope="module", params=FENS, ids=["endgame", "mates", "promotions"])
def graph(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    path = tmp_path_factory.mktemp("graph") / "some.graph"
    return searched(path, request.param, visits=60), request.param


def json_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def check_moves(record: NodeRecord, board: chess.Board, moves: list[dict[str, Any]]) -> None:
    """Asserts that moves have the numbers of a record, in its order, and that N, P and Q follow from them."""
    legal = legal_moves(board) if record.codes else []
    ranked = ranking(record, board.halfmove_clock)
    assert [move["move"] for move in moves] == [legal[record.order[k]].uci() for k in ranked]
    for k, move in zip(ranked, moves, strict=True):
        edge = edge_of(record, k)
        child = after(board, legal[record.order[k]])
        assert (move["n"], move["r"]) == (edge.n, edge.r)
        assert move["p"] == record.priors[record.order[k]]
        assert move["q"] == (edge.value if edge.n else None)
        assert move["cp"] == (cp_of(edge.value) if edge.n else None)
        assert move["san"] == board.san(legal[record.order[k]])
        assert move["child"] == f"{key_of(child):016x}"
        proven = edge.proof.moves if edge.proof and edge.proof.holds_at(board.halfmove_clock) else None
        assert move["mate"] == (1 if child.is_checkmate() else proven)


def check_node(record: NodeRecord, node: dict[str, Any], moves: list[dict[str, Any]]) -> None:
    assert node["n"] == record.visits == 1 + sum(move["n"] for move in moves)
    assert node["q"] == node_mean(record)[0]
    mean = (node["v"] + sum(move["n"] * (move["q"] or 0.0) for move in moves)) / node["n"]
    assert min(max(mean, node["lower"]), node["upper"]) == pytest.approx(node["q"], abs=1e-12)
    assert (node["evaluator"], node["run"]) == (record.evaluator, record.run)


def test_json_lines_hold_every_record(graph: tuple[Path, str], tmp_path: Path) -> None:
    path, fen = graph
    report = export("jsonl", path, tmp_path / "out.jsonl", Selection(all_moves=True))
    known = known_below(path, fen)
    rows = json_lines(tmp_path / "out.jsonl")
    assert report.positions == len(rows) == len(known)
    assert {row["key"] for row in rows} == {f"{key:016x}" for key in known}
    for row in rows:
        board, record = known[int(row["key"], 16)]
        assert chess.Board(row["fen"]).epd() == board.epd()
        assert (row["fen"].split()[5], row["ply"]) == (str(board.fullmove_number), board.ply())
        assert sum(row["wdl"]) == pytest.approx(1)
        assert (row["terminal"] is None) == (terminal_kind(board) == 0)
        check_moves(record, board, row["moves"])
        node = row | {"lower": row["bounds"][0], "upper": row["bounds"][1]}
        check_node(record, node, row["moves"])


def test_csv_holds_every_record(graph: tuple[Path, str], tmp_path: Path) -> None:
    path, fen = graph
    report = export("csv", path, tmp_path / "out.csv", Selection(all_moves=True))
    data = (tmp_path / "out.csv").read_bytes()
    assert data.count(b"\r\n") == data.count(b"\n")
    with (tmp_path / "out.csv").open(newline="", encoding="utf-8") as handle:
        reader = csv.DictReader(handle)
        assert tuple(reader.fieldnames or ()) == COLUMNS
        nodes: dict[str, list[dict[str, Any]]] = {}
        for row in reader:
            nodes.setdefault(row["key"], []).append({name: number(name, text) for name, text in row.items()})
    known = known_below(path, fen)
    assert report.positions == len(nodes) == len(known)
    for key, rows in nodes.items():
        board, record = known[int(key, 16)]
        moves = [row for row in rows if row["move"] is not None]
        check_moves(record, board, moves)
        check_node(record, rows[0] | {"n": rows[0]["node_n"], "q": rows[0]["node_q"]}, moves)
    assert report.moves == sum(len(record.codes) for _, record in known.values())


TEXTS = {"key", "fen", "terminal", "move", "san", "child"}


def number(name: str, text: str) -> Any:
    if text == "":
        return None
    return text if name in TEXTS else json.loads(text)


def test_moves_without_visits_are_written_if_asked_for(
    graph: tuple[Path, str], tmp_path: Path, cli: Cli
) -> None:
    path, _ = graph
    visited = export("jsonl", path, tmp_path / "visited.jsonl")
    every = export("jsonl", path, tmp_path / "every.jsonl", Selection(all_moves=True))
    assert visited.positions == every.positions
    assert visited.moves < every.moves
    for some, all_ in zip(
        *(json_lines(tmp_path / f"{name}.jsonl") for name in ("visited", "every")), strict=True
    ):
        assert some == all_ | {"moves": [move for move in all_["moves"] if move["n"]]}
    assert export("csv", path, tmp_path / "visited.csv").moves == visited.moves
    cli("export", path, "-o", tmp_path / "x.pgn", "--all-moves").ends(2, "--all-moves does not apply to pgn")
    cli("export", path, "-o", tmp_path / "x.csv", "--all-moves", "--min-visits", 1).ends(
        2, "exclude each other"
    )


def test_python_chess_reads_every_line_of_epd(graph: tuple[Path, str], tmp_path: Path) -> None:
    path, fen = graph
    export("epd", path, tmp_path / "out.epd")
    known = known_below(path, fen)
    lines = (tmp_path / "out.epd").read_text().splitlines()
    assert len(lines) == len(known)
    for line in lines:
        board, read = chess.Board.from_epd(line)
        found: dict[str, Any] = dict(read)
        assert found["id"] == f"{key_of(board):016x}"
        _, record = known[key_of(board)]
        assert found["acn"] == record.visits
        pv = found.get("pv", [])
        assert len(pv) == found["acd"]
        assert found.get("bm", []) == pv[:1]
        assert bool(pv) == has_best_move(record)
        mates = any(after(board, move).is_checkmate() for move in board.legal_moves)
        expected = 32766 if mates else -32767 if board.is_checkmate() else cp_of(node_mean(record)[0])
        assert (found["ce"], found.get("dm")) == (expected, 1 if mates else None)
        walk = board.copy()
        for move in pv:
            record = known[key_of(walk)][1]
            assert move == legal_moves(walk)[record.order[ranking(record)[0]]]
            walk.push(move)


def test_games_stand_beside_the_moves(tmp_path: Path) -> None:
    path = filled(tmp_path / "games.graph", [made_record(chess.Board(), {"e4": (9, 0.1)})])
    add_games(path, {"e4": (3, 1, 0), "d4": (0, 0, 2)})
    export("jsonl", path, tmp_path / "out.jsonl")
    (row,) = json_lines(tmp_path / "out.jsonl")
    assert [(g["move"], g["white"], g["draws"], g["black"]) for g in row["games"]] == [
        ("e2e4", 3, 1, 0),
        ("d2d4", 0, 0, 2),
    ]
    assert row["moves"][0]["n"] == 9


def test_a_book_has_its_moves_and_values(tmp_path: Path) -> None:
    visits = {"e4": (90, 0.1), "d4": (5, 0.3), "a3": (50, 0.0)}
    path = filled(tmp_path / "book.graph", [made_record(chess.Board(), visits)])
    add_book(path, "mine", "both", [chess.STARTING_FEN], {"e4": 0.2, "d4": -0.2, "e4 e5": 0.3})
    report = export("jsonl", path, tmp_path / "out.jsonl", Selection(book="mine"))
    rows = json_lines(tmp_path / "out.jsonl")
    assert report.positions == len(rows) == 4
    assert [(row["ply"], row["n"], row["book"]["value"]) for row in rows] == [
        (0, 146, None),
        (1, None, -0.2),
        (1, None, 0.2),
        (2, None, 0.3),
    ]
    assert [move["move"] for move in rows[0]["moves"]] == ["d2d4", "e2e4"]
    export("epd", path, tmp_path / "out.epd", Selection(book="mine", side="black"))
    found = [chess.Board.from_epd(line)[1] for line in (tmp_path / "out.epd").read_text().splitlines()]
    assert [row.get("ce") for row in found] == [cp_of(-0.2), cp_of(0.2)]
    assert [row.get("bm") for row in found] == [None, [chess.Move.from_uci("e7e5")]]


def test_all_exports_of_a_book_have_the_same_centipawns(tmp_path: Path) -> None:
    visits = {"e4": (90, 0.1), "d4": (5, 0.3), "a3": (50, 0.0)}
    path = filled(tmp_path / "book.graph", [made_record(chess.Board(), visits)])
    add_book(path, "mine", "both", [chess.STARTING_FEN], {"e4": 0.2, "d4": -0.2})
    of_book = Selection(book="mine")
    export("jsonl", path, tmp_path / "out.jsonl", of_book)
    export("csv", path, tmp_path / "out.csv", of_book)
    export("epd", path, tmp_path / "out.epd", of_book)
    export("pgn", path, tmp_path / "out.pgn", of_book)
    export("site", path, tmp_path / "site", of_book)
    rows = json_lines(tmp_path / "out.jsonl")
    head = next(csv.DictReader((tmp_path / "out.csv").read_text().splitlines()))
    epd = [chess.Board.from_epd(line)[1] for line in (tmp_path / "out.epd").read_text().splitlines()]
    assert {cp_of(0.2), cp_of(-0.2)} <= {row.get("ce") for row in epd}
    assert f"[%eval {cp_of(0.2) / 100:.2f}]" in (tmp_path / "out.pgn").read_text()
    by_move = {move["move"]: move["cp"] for move in rows[0]["moves"]}
    assert by_move == {"e2e4": cp_of(0.1), "d2d4": cp_of(0.3)}
    assert int(head["cp"]) == by_move[head["move"]]
    assert f",{by_move['e2e4']}," in (tmp_path / "site" / "data" / "0.js").read_text()


def test_limits_leave_out_moves_and_the_report_counts_them(graph: tuple[Path, str], tmp_path: Path) -> None:
    path, fen = graph
    known = known_below(path, fen)
    report = export("jsonl", path, tmp_path / "out.jsonl", Selection(min_visits=3))
    rows = json_lines(tmp_path / "out.jsonl")
    assert min(row["n"] for row in rows) >= 3
    assert all(move["n"] >= 3 for row in rows for move in row["moves"])
    few = sum(0 < edge.n < 3 for row in rows for edge in known[int(row["key"], 16)][1].edges)
    assert report.left_out["moves_few_visits"] == few
    one = export(
        "jsonl", path, tmp_path / "one.jsonl", Selection(roots=(chess.Board(fen),), max_moves=1, depth=2)
    )
    rows = json_lines(tmp_path / "one.jsonl")
    assert [row["depth"] for row in rows] == list(range(len(rows)))
    assert max(len(row["moves"]) for row in rows) == 1
    assert one.left_out["moves_beyond"] > 0
