"""What imported games and their players take: bytes a game, and the time of questions about them.

    python -m tools.measure_games --games 40000 --folder games

Synthetic games go into a graph file: of every position few moves are played often and many seldom, as in
opening theory. 40,000 games of 60 half-moves have some 2 million positions. A search of the start position
gives the file values. A sample is also written as PGN and imported, with and without `--players`. All times
are of a warm file, in CPU-seconds: `novelties` as by default and of all positions of two games or more.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Callable, Iterator
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
from graphsearch.position.board import key_of, pack
from graphsearch.position.fens import fens
from graphsearch.query.novelties import Rules, novelties
from graphsearch.query.players import players
from graphsearch.query.prepare import prepare
from graphsearch.query.steps import legal_codes, positions_after, sans, uci_of
from graphsearch.query.steps import move_lists as lists
from graphsearch.store.store import Store
from graphsearch.store.tables import games as game_tables
from graphsearch.store.tables import history
from graphsearch.store.tables import players as player_tables

PLIES, STEEPNESS, PLAYERS = 60, 0.55, 2000
RESULTS = ("1-0", "1/2-1/2", "0-1")
PART = 20_000  # games that are played together


def played(count: int, rng: np.random.Generator) -> Iterator[tuple[NDArray[Any], ...]]:
    """Yields, ply by ply: which games go on, their positions, keys, moves, and the numbers of these."""
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
        text = [f"{fen.rpartition(' ')[0]} {ply // 2 + 1}" for fen in fens(words[at])]
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
) -> Iterator[player_tables.NewGame]:
    for i, row in enumerate(moves):
        white, black = (f"Lastname{number}, Firstname" for number in names[i])
        yield player_tables.NewGame(
            number=first + i + 1,
            place=900 * (first + i),
            size=880,
            white=white,
            black=black,
            white_elo=2400,
            black_elo=2500,
            date=f"{2000 + i % 25}-05-{1 + i % 28:02}",
            event=(f"Open {i // 200}", "Town XXX"),
            round=f"{1 + i % 9}.{1 + i % 40}",
            result=RESULTS[results[i]],
            eco="C42",
            fen=None,
            moves=bytes(row),
        )


def sizes(path: Path) -> dict[str, int]:
    """Returns the bytes of every table and index."""
    with Store.open(path, read_only=True) as store:
        found = store.connection.execute("SELECT name, sum(pgsize) FROM dbstat GROUP BY name").fetchall()
    return dict(found)


def seconds(work: Callable[[], object], times: int = 3) -> float:
    """Returns the least CPU-seconds of some calls, kernels being compiled."""
    found = []
    for _ in range(times):
        before = time.process_time()
        work()
        found.append(time.process_time() - before)
    return round(min(found), 3)


def write_pgn(path: Path, count: int) -> None:
    """Writes synthetic games as PGN."""
    lines: list[list[str]] = [[] for _ in range(count)]
    for on, words, _, _, number in played(count, np.random.default_rng(2)):
        for game, row, legal, move in zip(on, words, lists(words), number, strict=True):
            lines[game].append(sans(row.tolist(), legal)[move])
    with path.open("w") as out:
        for i, moves in enumerate(lines):
            white, black = f"Lastname{i % 200}, F", f"Lastname{i % 170}, G"
            head = f'[White "{white}"]\n[Black "{black}"]\n[Date "2020.01.0{1 + i % 9}"]'
            out.write(f'[Event "Open"]\n{head}\n[Result "1-0"]\n\n{" ".join(moves)} 1-0\n\n')


def imports(folder: Path, count: int) -> dict[str, float]:
    """Returns CPU-seconds of the same import without and with players, and of adding the players later."""
    text = folder / "sample.pgn"
    write_pgn(text, count)

    def take(path: Path, *, kept: bool) -> float:
        return seconds(lambda: import_pgn(path, [GivenFile(str(text))], players=kept), 1)

    plain, whole = folder / "plain.graph", folder / "players.graph"
    for path in (plain, whole):
        path.unlink(missing_ok=True)
    return {
        "import": take(plain, kept=False),
        "import_players": take(whole, kept=True),
        "adding_players": take(plain, kept=True),
    }


def history_seconds(path: Path) -> float:
    """Returns what a save costs for the history of its root: CPU-seconds of 100 saves, divided."""
    with Graph.open(path) as graph:

        def save(store: Store) -> None:
            with store.transaction():
                for n in range(100):
                    values = graph.root_values(chess.Board())
                    assert values is not None
                    history.write(store, 1, replace(values, n=n))

        return seconds(lambda: graph.call(save)) / 100


def main() -> None:
    """Prints the figures as JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--games", type=int, default=40_000)
    parser.add_argument(
        "--visits", type=int, default=100_000, help="of the search that gives the file values"
    )
    parser.add_argument("--sample", type=int, default=500, help="games that are imported as PGN")
    parser.add_argument("--folder", type=Path, required=True, help="where its files go; kept")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    path = args.folder / "games.graph"
    if not path.exists():
        fill(path, args.games)
        with Graph.open(path) as graph:
            analyze(graph, chess.Board(), Limits(visits=args.visits), SearchParams(minibatch_size=64))
    of = sizes(path)
    kept = sum(
        of.get(name, 0)
        for name in of
        if name in ("game", "game_white", "game_black") or "player" in name or "event" in name
    )
    with Store.open(path, read_only=True) as store:
        positions = store.connection.execute("SELECT count(*) FROM game_position").fetchone()[0]
    rules = [Rules(min_games=n, min_visits=v) for n, v in ((5, 100), (2, 1))]
    name = players(path, top=1).rows[0]
    report = {
        "games": args.games,
        "positions": positions,
        "kept_bytes_per_game": round(kept / args.games, 1),
        "of_these_moves": PLIES,
        "counts_bytes_per_game": round((of["game_move"] + of["game_position"]) / args.games, 1),
        "novelties_s": seconds(lambda: novelties(path, chess.Board(), rules=rules[0])),
        "novelties_deep_s": seconds(lambda: novelties(path, chess.Board(), rules=rules[1]), 1),
        "players_s": seconds(lambda: players(path)),
        "prepare_games": name.games,
        "prepare_s": seconds(lambda: prepare(path, [name.name])),
        "history_save_s": history_seconds(path),
        **imports(args.folder, args.sample),
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
    }
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
