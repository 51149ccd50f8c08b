"""Costs of imported games and their players: bytes per game, and query times."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import chess
import numpy as np
from numpy.typing import NDArray

from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.exchange.pgn_import import import_pgn
from graphsearch.exchange.sources import GivenFile
from graphsearch.exchange.text_rows import letters_of, names_of
from graphsearch.position.board import key_of, pack
from graphsearch.query.novelties import Rules, novelties
from graphsearch.query.players import players
from graphsearch.query.prepare import prepare
from graphsearch.query.steps import legal_codes, positions_after
from graphsearch.store.store import Store
from graphsearch.store.tables import history

from .clocks import Work, timed
from .harness import Row, benchmark

PLIES, STEEPNESS, PLAYERS = 60, 0.55, 2000
RESULTS = ("1-0", "1/2-1/2", "0-1")
SAVES = 100  # of the history of a root
PART = 20_000  # games generated together


def played(count: int, rng: np.random.Generator) -> Iterator[tuple[NDArray[Any], ...]]:
    """Yields for each ply: indices of the unfinished games, their positions and their moves."""
    words = np.repeat(pack(chess.Board()).reshape(1, -1), count, 0)
    keys, on = np.full(count, key_of(chess.Board()), np.uint64), np.arange(count)
    for _ in range(PLIES):
        met, first, of = np.unique(keys, return_index=True, return_inverse=True)
        counts, moves, _ = legal_codes(words[first])
        goes_on = counts[of] > 0
        words, of, on = words[goes_on], of[goes_on], on[goes_on]
        rank = rng.geometric(STEEPNESS, len(on)) - 1
        codes = moves[of, (rank + (met[of] % np.uint64(97)).astype(np.int64)) % counts[of]]
        yield on, words, codes
        words, keys = positions_after(words, np.arange(len(on)), codes)


def texts(count: int) -> Iterator[str]:
    """Yields synthetic games as PGN, endlessly: of every position few moves are played often, many seldom."""
    rng = np.random.default_rng(1)
    while True:
        names, results = rng.zipf(1.3, (count, 2)) % PLAYERS, rng.integers(0, 3, count)
        lines: list[list[str]] = [[] for _ in range(count)]
        for on, words, codes in played(count, rng):
            sans = letters_of(names_of(words, np.arange(len(words)), codes).san)
            for game, san in zip(on, sans, strict=True):
                lines[game].append(san.decode())
        for i, (moves, (white, black)) in enumerate(zip(lines, names, strict=True)):
            result, date = RESULTS[results[i]], f"{2000 + i % 25}.05.{1 + i % 28:02}"
            tags = {"Event": f"Open {i // 200}", "Site": "Town XXX", "Date": date}
            tags |= {"Round": f"{1 + i % 9}.{1 + i % 40}", "White": f"Lastname{white}, Firstname"}
            tags |= {"Black": f"Lastname{black}, Firstname", "Result": result}
            head = "".join(f'[{name} "{value}"]\n' for name, value in tags.items())
            yield f"{head}\n{' '.join(moves)} {result}\n\n"


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
def games(*, games: int = 40_000, visits: int = 100_000, folder: Path | None = None) -> Iterator[Row]:
    """What imported games and their players take: bytes of a game, CPU time of questions about them.

    Synthetic games are imported from PGN, without and with players: of every position few moves are played
    often and many seldom, as in opening theory. 40,000 games of 60 half-moves have 2 million positions. A
    search of the start position (--visits) gives the file values. --folder keeps the files. cpu_s are of a
    warm file: novelties as by default, and of all positions of two games or more.
    """
    with tempfile.TemporaryDirectory() as made:
        place = folder or Path(made)
        place.mkdir(parents=True, exist_ok=True)
        path, plain, text = (place / name for name in ("games.graph", "plain.graph", "games.pgn"))
        if not path.exists():
            text.write_text("".join(islice(texts(min(games, PART)), games)))
            for file, kept in ((plain, False), (path, True), (plain, True)):
                work = partial(import_pgn, file, [GivenFile(str(text))], players=kept)
                later = ", added later" if kept and file == plain else ""
                yield {"what": f"import{' --players' * kept}{later}", "cpu_s": timed(work)[1]}
            with Graph.open(path) as graph:
                analyze(graph, chess.Board(), Limits(visits=visits), SearchParams(minibatch_size=64))
        yield from _sizes(path, games)
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
