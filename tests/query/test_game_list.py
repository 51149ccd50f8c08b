"""The list of imported games: every condition and order against python-chess, and each game with its text."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import cache
from pathlib import Path

import chess
import chess.pgn
import pytest

from graphsearch.exchange import pgn_import
from graphsearch.exchange.importing import GivenFile
from graphsearch.exchange.imports import import_files
from graphsearch.position.openings import opening_of
from graphsearch.query.game_list import GameFilters, ListedGames, Order, list_games
from graphsearch.store.tables import games as tables

from ..support.positions import after_line

NAMES = ("Tal, Mihail", "Pel\u00e9, A", "Keres, Paul", "Tal, Mihail jr", "Ke, Li")
NIMZO = "d4 Nf6 c4 e6 Nc3 Bb4"
NAJDORF = "e4 c5 Nf3 d6 d4 cxd4 Nxd4 Nf6 Nc3 a6"
OPENINGS = (NIMZO, "c4 Nf6 Nc3 e6 d4 Bb4", NAJDORF, "e4 e5", "")


def made_game(number: int) -> chess.pgn.Game:
    """Returns a game; every third one has a comment, a glyph and a variation."""
    rng = random.Random(number)
    game = chess.pgn.Game()
    board: chess.Board = chess.Board()
    node: chess.pgn.GameNode = game
    for san in OPENINGS[number % 5].split():
        node = node.add_variation(board.parse_san(san))
        board.push(board.parse_san(san))
    for _ in range(rng.randrange(30)):
        if board.is_game_over():
            break
        move = rng.choice(list(board.legal_moves))
        node = node.add_variation(move)
        board.push(move)
    white, black = rng.sample(NAMES, 2)
    date = rng.choice(["2020.03.01", "2021.??.??", "????.??.??", "2022.12.31", "2020.11.05"])
    game.headers.update(
        {"White": white, "Black": black, "Date": date, "Event": f"Cup {number % 3}", "Site": "?"}
    )
    game.headers["Result"] = rng.choice(["1-0", "0-1", "1/2-1/2", "*"])
    if number % 4:
        game.headers.update({"WhiteElo": str(rng.randrange(1800, 2600)), "BlackElo": str(2000 + number)})
    if number % 6 == 1:
        game.headers["ECO"] = "A00"
    if number % 3 == 2 and game.variations:
        game.variations[0].comment = "[%eval 0.17] <b>bold</b> =1+1"
        game.variations[0].nags.add(1)
        game.add_variation(chess.Move.from_uci("a2a3"), comment="a side line")
    return game


Fits = Callable[[chess.pgn.Game], bool]
FIRST = 28  # games in the first file


@cache
def games() -> list[chess.pgn.Game]:
    return [made_game(number) for number in range(48)]


@cache
def texts() -> list[str]:
    return [str(game) for game in games()]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph file with two PGN files."""
    folder = tmp_path_factory.mktemp("list")
    for name, some in (("one.pgn", texts()[:FIRST]), ("two.pgn", texts()[FIRST:])):
        (folder / name).write_text("".join(f"{text}\n\n" for text in some), encoding="utf-8")
    files = [GivenFile(str(folder / name)) for name in ("one.pgn", "two.pgn")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pgn_import, "GAMES_AT_ONCE", 13)
        for report in import_files("pgn", folder / "a.graph", files, players=True):
            assert not report.problems
    return folder / "a.graph"


def numbers(found: ListedGames) -> set[int]:
    """Returns the listed games by their place in `games`."""
    return {game.row.number - 1 + FIRST * (game.row.source == 2) for game in found.games}


@cache
def passed(number: int) -> set[str]:
    """Returns the positions of a game, as EPD."""
    board = games()[number].board()
    found = {board.epd()}
    for move in games()[number].mainline_moves():
        board.push(move)
        found.add(board.epd())
    return found


def everything(store: Path, **filters: object) -> ListedGames:
    return list_games(store, GameFilters(**filters), Order(most=-1))  # type: ignore[arg-type]


def players(game: chess.pgn.Game) -> tuple[str, str]:
    return game.headers["White"], game.headers["Black"]


def played(game: chess.pgn.Game, *names: str) -> bool:
    return all(any(each.startswith(name) for each in players(game)) for name in names)


def code(game: chess.pgn.Game) -> str:
    return game.headers.get("ECO") or str(opening_of(game.end().board()))


def within(game: chess.pgn.Game, least: int, most: int) -> bool:
    ratings = [int(game.headers.get(f"{side}Elo", 0)) for side in ("White", "Black")]
    return all(least <= rating <= most for rating in ratings)


@pytest.mark.parametrize(
    ("filters", "fits"),
    [
        ({"player": "tal"}, lambda game: played(game, "Tal")),
        ({"player": "tal", "color": "black"}, lambda game: players(game)[1].startswith("Tal")),
        ({"player": "pele"}, lambda game: played(game, "Pel")),
        ({"player": "keres", "opponent": "tal"}, lambda game: played(game, "Keres", "Tal")),
        (
            {"player": "keres", "opponent": "tal", "color": "white"},
            lambda game: played(game, "Keres", "Tal") and players(game)[1].startswith("Tal"),
        ),
        ({"result": "1/2-1/2"}, lambda game: game.headers["Result"] == "1/2-1/2"),
        ({"least_elo": 2050, "most_elo": 2300}, lambda game: within(game, 2050, 2300)),
        ({"since": "2020-11"}, lambda game: game.headers["Date"][:7] in ("2020.11", "2021.??", "2022.12")),
        ({"since": "2020", "until": "2020"}, lambda game: game.headers["Date"][:4] == "2020"),
        ({"until": "2020-03-01"}, lambda game: game.headers["Date"] == "2020.03.01"),
        ({"opening": "nimzo"}, lambda game: "Nimzo" in str(opening_of(game.end().board()))),
        ({"opening": "B9"}, lambda game: code(game).startswith("B9")),
        ({"opening": "100%"}, lambda game: False),
        ({"file": "TWO"}, lambda game: games().index(game) >= FIRST),
    ],
)
def test_conditions_list_as_python_chess_does(store: Path, filters: dict[str, object], fits: Fits) -> None:
    found = everything(store, **filters)
    assert numbers(found) == {k for k, game in enumerate(games()) if fits(game)}
    assert (found.total, found.all_games) == (len(found.games), len(games()))


@pytest.mark.parametrize("moves", ["", "e4", NIMZO, NAJDORF, "h4 h5 Rh3"])
def test_a_position_lists_the_games_that_reach_it_by_any_order_of_moves(store: Path, moves: str) -> None:
    board = after_line(moves)
    found = everything(store, position=board)
    assert numbers(found) == {k for k in range(len(games())) if board.epd() in passed(k)}
    if moves:
        assert {game.ply for game in found.games} <= {len(moves.split())}


def test_bits_that_agree_by_chance_are_told_from_the_position(store: Path, tmp_path: Path) -> None:
    false = tmp_path / "false.graph"
    false.write_bytes(store.read_bytes())
    with closing(sqlite3.connect(false)) as connection:
        # every position of every game looks like the wanted one
        part = connection.execute("SELECT substr(keys, 1, 2) FROM game_index LIMIT 1").fetchone()[0]
        rows = connection.execute("SELECT length(keys), source, number FROM game_index").fetchall()
        connection.executemany(
            "UPDATE game_index SET keys = ? WHERE source = ? AND number = ?",
            [(part * (size // 2), *key) for size, *key in rows],
        )
        connection.commit()
    assert len(everything(false, position=chess.Board()).games) == len(games())
    assert everything(false, position=after_line("a3 a6 h3 h6")).total == 0


@pytest.mark.parametrize("by", sorted(tables.SORTS))
@pytest.mark.parametrize("down", [True, False])
def test_pages_in_every_order_have_each_game_once(store: Path, by: str, *, down: bool) -> None:
    pages = [
        list_games(store, None, Order(by=by, down=down, first=k, most=30)) for k in range(0, len(games()), 30)
    ]
    listed = [game for page in pages for game in page.games]
    assert len({(game.row.source, game.row.number) for game in listed}) == len(games())
    if by in ("number", "plies"):
        values = [game.plies if by == "plies" else (game.row.source, game.row.number) for game in listed]
        assert values == sorted(values, reverse=down)
    if by in ("date", "white_elo"):
        known = [value for game in listed if (value := getattr(game.row, by)) is not None]
        assert known == sorted(known, reverse=down)
        assert [getattr(game.row, by) is None for game in listed] == sorted(
            getattr(game.row, by) is None for game in listed
        )
