"""Read-only SQL, its functions, and the views that any SQLite tool can read."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import chess
import pytest

from graphsearch import Graph, Limits, analyze, show
from graphsearch.base.errors import InvalidParameterError, StatementLimitError
from graphsearch.position.board import key_of
from graphsearch.query.games import games
from graphsearch.query.sql import plain_tables, sql
from tests.conftest import ROOT

from ..conftest import present
from ..support.forks import Fork, Say, needs_fork
from ..support.positions import after_line
from .handmade import book_file

ENDLESS = "WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM x) "
START_KEY = f"{key_of(chess.Board()):016x}"


@pytest.fixture(scope="module")
def file(_filled_graph: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A searched file with games and a book."""
    path = Path(shutil.copy(_filled_graph, tmp_path_factory.mktemp("sql") / "small.graph"))
    after_e4 = after_line("e4")
    e4_key = f"{key_of(after_e4):016x}"
    with sqlite3.connect(path) as db:
        db.execute("INSERT INTO game_position VALUES (?, ?, 0)", (START_KEY, chess.STARTING_FEN))
        db.execute("INSERT INTO game_position VALUES (?, ?, 1)", (e4_key, after_e4.fen()))
        db.executemany(
            "INSERT INTO game_move VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (START_KEY, "e2e4", "e4", 5, 3, 2, 1, 4),
                (START_KEY, "d2d4", "d4", 1, 0, 0, 0, 0),
                (START_KEY, "h2h4", "h4", 0, 0, 0, 2, 0),
                (e4_key, "e7e5", "e5", 1, 2, 4, 0, 0),
            ],
        )
        db.execute("INSERT INTO source VALUES (1, 'pgn', 'a.pgn', '00', '{}', '', '', 1, 0, 1)")
        db.execute("INSERT INTO player VALUES (1, 'Ann')")
        db.execute(
            "INSERT INTO game (source, number, place, bytes, white, result, moves)"
            " VALUES (1, 1, 0, 9, 1, '1-0', x'12')"
        )
    db.close()
    return book_file(path)


def asked(
    path: Path, statement: str, limit: int | None = None
) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    with sql(path, statement, limit=limit) as result:
        return result.columns, list(result.rows)


def test_tables_and_views_can_be_selected_from(file: Path) -> None:
    columns, rows = asked(file, "SELECT san, games, score FROM game_moves ORDER BY games DESC, san")
    assert columns == ("san", "games", "score")
    assert rows == [
        ("e4", 11, pytest.approx(0.65)),
        ("e5", 7, pytest.approx(5 / 7)),
        ("h4", 2, None),
        ("d4", 1, 1.0),
    ]
    assert asked(file, "VALUES (1, 'a')")[1] == [(1, "a")]
    assert asked(file, "  -- why\n /* so */ select 1;")[1] == [(1,)]
    assert asked(file, ENDLESS + "SELECT n FROM x", 3)[1] == [(1,), (2,), (3,)]
    assert asked(file, "EXPLAIN QUERY PLAN SELECT * FROM run")[1]
    assert asked(file, "SELECT value FROM json_each('[7]')")[1] == [(7,)]
    assert ("id",) in asked(file, "SELECT name FROM pragma_table_info('run')")[1]


def test_a_record_is_the_json_that_show_prints(file: Path) -> None:
    data = json.loads(asked(file, f"SELECT record('{chess.STARTING_FEN}')")[1][0][0])
    shown = present(show(file, chess.Board())).as_dict()
    assert data["visits"] == shown["visits"]
    assert [(m["move"], m["n"], m["q"]) for m in data["moves"]] == [
        (m["move"], m["n"], m["q"]) for m in shown["moves"]
    ]
    assert asked(file, "SELECT record('4k3/8/8/8/8/8/8/4K2R w - - 0 1'), record(NULL)")[1] == [(None, None)]
    assert asked(file, "SELECT json_extract(record(position), '$.visits') FROM root")[1] == [
        (shown["visits"],)
    ]


REFUSED = {
    "": "the statement is empty",
    "DELETE FROM run": "only statements that read",
    "PRAGMA query_only = 0": "only statements that read",
    "ATTACH 'x' AS y": "only statements that read",
    "VACUUM INTO 'x'": "only statements that read",
    "WITH x AS (SELECT 1) DELETE FROM run": "not authorized",
    "EXPLAIN DELETE FROM run": "not authorized",
    "SELECT load_extension('x')": "not authorized",
    "SELECT * FROM pragma_journal_mode": "not authorized|no such table",
    "SELECT * FROM nowhere": "no such table: nowhere",
    "SELECT": "incomplete|syntax",
    "SELECT 1; DELETE FROM run": "one statement",
    "SELECT ?": "binding",
    "SELECT record('nonsense')": r"record\(\): a FEN needs at least four fields",
    "SELECT record(7)": r"record\(\): expected a FEN, not 7",
    "SELECT cp('x')": r"cp\(\): expected a number",
    "SELECT san('startpos', 'e5')": r"san\(\): move 1 of the list, 'e5', is illegal",
    "SELECT after('startpos', 'Qh9')": r"after\(\): move 1",
}


@pytest.mark.parametrize("statement", REFUSED)
def test_what_does_not_read_or_is_wrong_is_refused_in_one_line(file: Path, statement: str) -> None:
    before = file.read_bytes()
    with pytest.raises(InvalidParameterError, match=REFUSED[statement]) as caught:
        asked(file, statement)
    assert "\n" not in str(caught.value)
    assert file.read_bytes() == before


def test_sqlite_utils_reads_tables_views_and_functions_and_writes_nothing(file: Path) -> None:
    before = file.read_bytes()
    with plain_tables(file) as tables:
        assert [row["visits"] for row in tables["run"].rows] == [300]
        assert tables["top_position"].count >= 1
        (row,) = tables.query("SELECT key(?) AS key", [chess.STARTING_FEN])
        assert row["key"] in {root["key"] for root in tables["root"].rows}
        with pytest.raises(sqlite3.DatabaseError):
            tables.execute("DELETE FROM root")
    assert file.read_bytes() == before


def test_it_reads_beside_a_search_and_from_a_read_only_folder(small_graph: Path, tmp_path: Path) -> None:
    with Graph.open(small_graph) as graph:
        analyze(graph, chess.Board(), Limits(visits=50))
        assert asked(small_graph, "SELECT count(*) FROM run")[1] == [(2,)]
    folder = tmp_path / "fixed"
    folder.mkdir()
    copy = Path(shutil.copy(ROOT / "tests" / "golden" / "format4.graph", folder / "a.graph"))
    copy.chmod(0o444)
    folder.chmod(0o555)
    try:
        assert asked(copy, "SELECT count(*) FROM run")[1] == [(4,)]
        assert [path.name for path in folder.iterdir()] == ["a.graph"], "nothing is left beside it"
    finally:
        folder.chmod(0o755)


# ------------------------------------------------------------------ views
@pytest.mark.parametrize(
    "view",
    [
        *("runs", "position_moves", "game_moves", "games_against_search", "book_edges"),
        *("book_open_leaves", "played_games"),
    ],
)
def test_every_view_has_rows_for_a_tool_without_functions(file: Path, view: str) -> None:
    with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as connection:
        connection.row_factory = sqlite3.Row
        rows = connection.execute(f"SELECT * FROM {view}").fetchall()
    assert rows
    assert len(set(rows[0].keys())) == len(rows[0].keys())
    assert ("fen" in rows[0].keys()) == (view != "played_games")  # noqa: SIM118
    for row in rows if view != "played_games" else ():
        assert chess.Board(row["fen"]).is_valid()


# ------------------------------------------------------------------ games
def test_games_are_counted_beside_the_search(file: Path) -> None:
    found = games(file, chess.Board())
    assert (found.results.games, found.results.white, found.results.variations) == (14, 6, 4)
    assert found.score == pytest.approx((6 + 1.5) / 11)
    e4 = found.moves[0]
    edge = next(move for move in present(show(file, chess.Board())).moves if move.san == "e4")
    assert (e4.san, e4.results.games) == ("e4", 11)
    assert e4.white_percent == pytest.approx(50)
    assert e4.score == pytest.approx(0.65)
    assert (e4.n, e4.q) == (edge.n, edge.q)
    assert e4.difference == pytest.approx(0.3 - present(edge.q))
    assert [row.san for row in found.moves[:3]] == ["e4", "h4", "d4"]
    assert found.moves[1].score is None, "no result is known"
    black = games(file, after_line("e4")).moves[0]
    assert black.san == "e5"
    assert black.score == pytest.approx(5 / 7), "as Black, who moves, sees it"
    data = found.as_dict()["moves"][0]
    assert (data["games"], data["white"], data["san"]) == (11, 5, "e4")


# ----------------------------------------------------------------- limits
@pytest.mark.parametrize(
    ("statement", "timeout", "message"),
    [
        (ENDLESS + "SELECT sum(n) FROM x", 0.1, r"stopped after 0\.1 s"),
        (
            ENDLESS + "SELECT count(DISTINCT a) FROM (SELECT randomblob(2000000) AS a FROM x)",
            0.1,
            r"after 0\.1 s",
        ),
        ("SELECT randomblob(900000000)", 60, "16 MiB"),
        ("SELECT length(hex(zeroblob(9000000)))", 60, "16 MiB"),
    ],
)
def test_time_and_the_size_of_values_are_limited(
    file: Path, statement: str, timeout: float, message: str
) -> None:
    with pytest.raises(StatementLimitError, match=message), sql(file, statement, timeout=timeout) as result:
        list(result.rows)


def test_the_time_between_two_rows_does_not_count(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("graphsearch.query.sql.monotonic", lambda: now[0])
    with sql(file, ENDLESS + "SELECT n FROM x LIMIT 3", timeout=0.2) as result:
        first = next(result.rows)
        now[0] += 0.4
        assert [first, *result.rows] == [(1,), (2,), (3,)]


@needs_fork
def test_a_statement_gets_no_more_memory_than_it_may_have(file: Path) -> None:
    what = "SELECT " + ", ".join(["randomblob(4000000)"] * 9)

    def ask(say: Say) -> None:  # in a fork: SQLite keeps the limit
        try:
            with sql(file, what, heap_bytes=24 << 20) as result:
                list(result.rows)
        except StatementLimitError as error:
            say(error)

    with Fork(ask) as fork:
        (told,) = fork.rest()
    assert told.startswith("SQL: the statement exceeds its memory limit")
