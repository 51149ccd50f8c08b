"""The life of a book on real games: imported, built, killed, resumed, taken out and brought in again."""

from __future__ import annotations

import csv
import itertools
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import chess
import chess.pgn
import chess.polyglot
import pytest

from ..cli.test_cli_book import searched
from ..conftest import Cli, shared_data, sql

GAMES = 150
BOOK = """
[book]
name = "real"
side = "white"
max_ply = 8
[[root]]
moves = "1. d4"
[[window]]
plies = [0, 8]
own_cp = 10
own_moves = 2
reply_p = 0.1
reply_games = 10
reply_moves = 3
[leaf]
evaluations = 40
params = { MinibatchSize = 1 }  # as many evaluations as the limit says
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some hundred real games and a BOOK.toml."""
    folder = tmp_path_factory.mktemp("life")
    with (
        shared_data("data/8moves_v3_first8000.pgn").open() as source,
        (folder / "games.pgn").open("w") as target,
    ):
        for game in itertools.islice(iter(lambda: chess.pgn.read_game(source), None), GAMES):
            print(game, file=target, end="\n\n")
    (folder / "book.toml").write_text(BOOK)
    return folder


KILLED = """
import os, signal, sys
from graphsearch.book.builder import Builder
from graphsearch.cli import main

take, (saved, most) = Builder._take, (int(sys.argv.pop(1)), int(sys.argv.pop(1)))

def take_and_end(builder, outcome):
    take(builder, outcome)
    if builder.counts.searched == saved:
        builder._save(wait=True)
    if builder.counts.searched == most:
        os.kill(os.getpid(), signal.SIGKILL)

Builder._take = take_and_end
main()
"""


def killed_once(path: Path, toml: Path, saved: int) -> None:
    """Runs a build that saves after so many positions, and is killed three positions later."""
    words = [saved, saved + 3, "book", "build", toml, "--store", path]
    done = subprocess.run([sys.executable, "-c", KILLED, *map(str, words)], check=False)
    assert done.returncode == -signal.SIGKILL


@pytest.mark.slow
def test_a_book_lives(folder: Path, cli: Cli) -> None:
    path, toml = folder / "b.graph", folder / "book.toml"
    done = cli("import", folder / "games.pgn", "--store", path, "--json")
    assert done.code == 0
    assert sum(item["taken"] for item in done.json["files"]) == GAMES
    counted = sql(path, "SELECT sum(white + draws + black + unknown) FROM game_move")
    time.sleep(1.0)  # times are in seconds: games of the one in which a build began count as newer than it,
    killed_once(path, toml, 5)  # and the next build decides everything anew, by records that have grown
    assert cli("store", "verify", path).code == 0
    assert searched(path) == 5
    report = cli("book", "build", toml, "--store", path, "--evaluations", 1200, "--json").json
    assert report["searched"] > 10
    assert cli("store", "verify", path).code == 0
    assert sql(path, "SELECT sum(white + draws + black + unknown) FROM game_move") == counted
    whole = folder / "whole.graph"
    cli("import", folder / "games.pgn", "--store", whole)
    total = sql(path, "SELECT sum(searches) FROM book_position")[0][0]
    cli("book", "build", toml, "--store", whole, "--evaluations", 40 * total)
    columns = "key, state, searches, n, value, outside, outside_move"
    query = f"SELECT {columns} FROM book_position ORDER BY key"
    assert sql(path, query) == sql(whole, query), "a build that was killed makes the book of one that was not"
    out_and_in(path, folder, cli)


def out_and_in(path: Path, folder: Path, cli: Cli) -> None:
    """Takes the book out in every format, and brings it in again."""
    moves = {(k, m) for k, m in sql(path, "SELECT key, move FROM book_move")}
    fens = dict(sql(path, "SELECT key, fen FROM book_position"))
    names = {"polyglot": "o.bin", "pgn": "o.pgn", "epd": "o.epd", "jsonl": "o.jsonl", "csv": "o.csv"}
    for kind, name in names.items():
        more = ["--side", "both", *(["--weights", "minimax"] if kind == "polyglot" else [])]
        done = cli("export", "--store", path, "-o", folder / name, "--book", "real", *more)
        assert done.code == 0, done.err
    new = folder / "new.graph"
    for kind, name in (("polyglot", "o.bin"), ("pgn", "o.pgn"), ("epd", "o.epd")):
        more = ["--variations"] if kind == "pgn" else []
        done = cli("import", folder / name, "--store", new, *more)
        assert done.code == 0, done.err
    entries = set(sql(new, "SELECT key, move FROM polyglot_entry"))
    assert entries <= moves
    with chess.polyglot.open_reader(folder / "o.bin") as reader:
        for key, fen in fens.items():
            found = {entry.move.uci() for entry in reader.find_all(chess.Board(fen))}
            assert found == {move for k, move in entries if k == key}
    visited = set(sql(path, "SELECT key, move FROM book_move WHERE value IS NOT NULL"))
    assert len(entries) > len(visited) // 2
    assert {key for (key,) in sql(new, "SELECT key FROM epd_position")} <= set(fens)
    played = set(sql(new, "SELECT key, move FROM game_move"))
    assert played <= moves | {("463b96181691fc9c", "d2d4")}  # the way from move one to the root
    assert len(played) > len(visited) // 2
    lines = [json.loads(line) for line in (folder / "o.jsonl").read_text().splitlines()]
    assert {line["key"] for line in lines} <= set(fens)
    with (folder / "o.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {(row["key"], row["move"]) for row in rows if row["move"]} <= moves
    assert {(line["key"], move["move"]) for line in lines for move in line["moves"]} == {
        (row["key"], row["move"]) for row in rows if row["move"]
    }
