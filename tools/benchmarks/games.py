"""Costs of imported games and their players: bytes per game, and query times."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import chess
import numpy as np
from numpy.typing import NDArray

from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.exchange.importing import open_for_import
from graphsearch.exchange.pgn_import import import_pgn
from graphsearch.exchange.sources import GivenFile
from graphsearch.exchange.text_rows import letters_of, names_of
from graphsearch.position.board import key_of, pack
from graphsearch.position.fens import fens
from graphsearch.query.novelties import Rules, novelties
from graphsearch.query.players import players
from graphsearch.query.prepare import prepare
from graphsearch.query.steps import legal_codes, positions_after, uci_of
from graphsearch.store.store import Store
from graphsearch.store.tables import games as game_tables
from graphsearch.store.tables import history
from graphsearch.store.tables import players as player_tables

from .clocks import Work, timed
from .harness import Row, benchmark

PLIES, STEEPNESS, PLAYERS = 60, 0.55, 2000
RESULTS = ("1-0", "1/2-1/2", "0-1")
SAVES = 100  # of the history of a root
PART = 20_000  # games generated together


def played(count: int, rng: np.random.Generator) -> Iterator[tuple[NDArray[Any], ...]]:
    """Yields for each ply: indices of the unfinished games, their positions, keys, moves and move numbers."""
    words = np.repeat(pack(chess.Board()).reshape(1, -1), count, 0)
    keys, on = np.full(count, key_of(chess.Board()), np.uint64), np.arange(count)
    for _ in range(PLIES):
        met, first, of = np.unique(keys, return_index=True, return_inverse=True)
        counts, moves, _ = legal_codes(words[first])
        goes_on = counts[of] > 0
        words, keys, of, on = words[goes_on], keys[goes_on], of[goes_on], on[goes_on]
        rank = rng.geometric(STEEPNESS, len(on)) - 1
        number = (rank + (met[of] % np.uint64(97)).astype(np.int64)) % counts[of]
        codes = moves[of, number]
        yield on, words, keys, codes, number
        words, keys = positions_after(words, np.arange(len(on)), codes)


def fill(path: Path, count: int) -> None:
    """Writes the games into the tables of a new file."""
    rng = np.random.default_rng(1)
    names = rng.zipf(1.3, (count, 2)) % PLAYERS
    results = rng.integers(0, 3, count)
    with open_for_import(path) as store:
        with store.transaction():
            source = game_tables.begin_source(store, "pgn", "synthetic.pgn", "00", {})
        for first in range(0, count, PART):
            some = slice(first, min(count, first + PART))
            with store.transaction():
                _fill_part(store, source.id, names[some], results[some], first, rng)
        with store.transaction():
            game_tables.update_source(store, source, taken=count, skipped=0, finished=True, players=count)


def _fill_part(
    store: Store,
    source: int,
    names: NDArray[np.int64],
    results: NDArray[np.int64],
    first: int,
    rng: np.random.Generator,
) -> None:
    numbers = [bytearray() for _ in names]
    for ply, (on, words, keys, codes, number) in enumerate(played(len(names), rng)):
        for game, move in zip(on.tolist(), number.tolist(), strict=True):
            numbers[game].append(move)
        _, at = np.unique(keys, return_index=True)
        text = fens(words[at], [ply] * len(at))
        pairs, which = np.unique(np.stack([keys, codes.astype(np.uint64)]), axis=1, return_inverse=True)
        counts = np.zeros((pairs.shape[1], 3), np.int64)
        np.add.at(counts, (which.reshape(-1), results[on]), 1)
        rows: list[Any] = [
            (f"{key:016x}", uci_of(code), uci_of(code), *n, 0, 0)
            for key, code, n in zip(pairs[0].tolist(), pairs[1].tolist(), counts.tolist(), strict=True)
        ]
        game_tables.add_games(
            store, [(f"{keys[i]:016x}", t, ply) for i, t in zip(at.tolist(), text, strict=True)], rows
        )
    player_tables.add(store, source, list(_games(numbers, names, results, first)))


def _games(
    moves: list[bytearray], names: NDArray[np.int64], results: NDArray[np.int64], first: int
) -> Iterator[player_tables.GameRow]:
    for i, row in enumerate(moves):
        white, black = (f"Lastname{number}, Firstname" for number in names[i])
        yield player_tables.GameRow(
            source=0,
            number=first + i + 1,
            place=900 * (first + i),
            size=880,
            white=white,
            black=black,
            white_elo=2400,
            black_elo=2500,
            date=f"{2000 + i % 25}-05-{1 + i % 28:02}",
            event=f"Open {i // 200}",
            site="Town XXX",
            round=f"{1 + i % 9}.{1 + i % 40}",
            result=RESULTS[results[i]],
            eco="C42",
            fen=None,
            moves=bytes(row),
        )


def write_pgn(path: Path, count: int) -> None:
    """Writes synthetic games as PGN."""
    lines: list[list[str]] = [[] for _ in range(count)]
    for on, words, _, codes, _ in played(count, np.random.default_rng(2)):
        names = names_of(words, np.arange(len(words)), codes)
        for game, san in zip(on, letters_of(names.san), strict=True):
            lines[game].append(san.decode())
    with path.open("w") as out:
        for i, moves in enumerate(lines):
            white, black = f"Lastname{i % 200}, F", f"Lastname{i % 170}, G"
            head = f'[White "{white}"]\n[Black "{black}"]\n[Date "2020.01.0{1 + i % 9}"]'
            out.write(f'[Event "Open"]\n{head}\n[Result "1-0"]\n\n{" ".join(moves)} 1-0\n\n')


def imports(folder: Path, count: int) -> Iterator[tuple[str, Work]]:
    """Yields the same import without players, with players, and with players added later."""
    text = folder / "sample.pgn"
    write_pgn(text, count)
    for name in ("plain.graph", "players.graph"):
        (folder / name).unlink(missing_ok=True)

    def take(name: str, *, kept: bool) -> Work:
        return lambda: import_pgn(folder / name, [GivenFile(str(text))], players=kept)

    yield "import", take("plain.graph", kept=False)
    yield "import --players", take("players.graph", kept=True)
    yield "import --players, added later", take("plain.graph", kept=True)


def _saves(graph: Graph) -> None:
    """Writes the history of a root SAVES times, as saves do."""

    def save(store: Store) -> None:
        with store.transaction():
            for n in range(SAVES):
                values = graph.root_values(chess.Board())
                assert values is not None
                history.write(store, 1, replace(values, n=n))

    graph.call(save)


@benchmark("what")
def games(
    *, games: int = 40_000, visits: int = 100_000, sample: int = 500, folder: Path | None = None
) -> Iterator[Row]:
    """What imported games and their players take: bytes of a game, CPU time of questions about them.

    Synthetic games go into a graph file: of every position few moves are played often and many seldom, as in
    opening theory. 40,000 games of 60 half-moves have 2 million positions. A search of the start position
    (--visits) gives the file values. --sample games are also imported from PGN; --folder keeps the files.
    cpu_s are of a warm file: novelties as by default, and of all positions of two games or more.
    """
    with tempfile.TemporaryDirectory() as made:
        place = folder or Path(made)
        place.mkdir(parents=True, exist_ok=True)
        path = place / "games.graph"
        if not path.exists():
            fill(path, games)
            with Graph.open(path) as graph:
                analyze(graph, chess.Board(), Limits(visits=visits), SearchParams(minibatch_size=64))
        yield from _sizes(path, games)
        for what, work in imports(place, sample):
            yield {"what": f"{what}, of {sample} games", "cpu_s": timed(work)[1]}
        yield from _questions(path)


def _sizes(path: Path, games: int) -> Iterator[Row]:
    with Store.open(path, read_only=True) as store:
        pages = "SELECT name, sum(pgsize) FROM dbstat GROUP BY name"
        sizes = dict(store.connection.execute(pages).fetchall())
        positions = store.connection.execute("SELECT count(*) FROM game_position").fetchone()[0]
    kept = [name for name in sizes if re.match(r"game$|game_(white|black)$|.*(player|event)", name)]
    yield {"what": "positions", "count": positions}
    yield {"what": "a kept game", "bytes": sum(sizes[name] for name in kept) / games}
    yield {"what": "its moves", "bytes": PLIES}
    yield {"what": "its counts", "bytes": (sizes["game_move"] + sizes["game_position"]) / games}


def _questions(path: Path) -> Iterator[Row]:
    name = players(path, top=1).rows[0]
    wide, deep = (Rules(min_games=n, min_visits=v) for n, v in ((5, 100), (2, 1)))
    works: dict[str, Work] = {
        "query novelties": lambda: novelties(path, chess.Board(), rules=wide),
        "query novelties, two games": lambda: novelties(path, chess.Board(), rules=deep),
        "query players": lambda: players(path),
        f"query prepare, {name.games:,} games": lambda: prepare(path, [name.name]),
    }
    for what, work in works.items():
        work()
        yield {"what": what, "cpu_s": timed(work)[1]}
    with Graph.open(path) as graph:
        yield {"what": "noting a root at a save", "cpu_s": timed(lambda: _saves(graph))[1] / SAVES}
