"""Imported games by python-chess: lists, who played, what `--players` keeps, novelties, preparation."""

from __future__ import annotations

import gzip
import io
import random
import shutil
import sqlite3
import threading
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import closing
from copy import copy
from functools import cache
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from types import SimpleNamespace
from typing import Any

import chess
import chess.pgn
import pytest

from graphsearch.base.errors import CorruptRecordError, InvalidParameterError
from graphsearch.exchange import importing, pgn_import
from graphsearch.exchange.imports import import_files
from graphsearch.exchange.kept_games import game_text, plain_text
from graphsearch.position.board import legal_moves
from graphsearch.position.openings import opening_of
from graphsearch.position.values import cp_of
from graphsearch.query.game_list import GameFilters, ListedGames, list_games, named, players
from graphsearch.query.novelties import NotableMove, Rules, novelties
from graphsearch.query.prepare import Departure, prepare
from graphsearch.query.prepare import _sides as sides_of
from graphsearch.store.store import Store
from graphsearch.store.tables import games as tables
from graphsearch.store.verify import verify

from ..conftest import Cli, sql
from ..support.positions import after_line
from .handmade import add_book, graph_file

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
    files = [importing.GivenFile(str(folder / name)) for name in ("one.pgn", "two.pgn")]
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
    board = games()[number].board()
    found = {board.epd()}
    for move in games()[number].mainline_moves():
        board.push(move)
        found.add(board.epd())
    return found


def everything(store: Path, **filters: object) -> ListedGames:
    return list_games(store, GameFilters(**filters), most=-1)  # type: ignore[arg-type]


def sides(game: chess.pgn.Game) -> tuple[str, str]:
    return game.headers["White"], game.headers["Black"]


def played(game: chess.pgn.Game, *names: str) -> bool:
    return all(any(each.startswith(name) for each in sides(game)) for name in names)


def code(game: chess.pgn.Game) -> str:
    return game.headers.get("ECO") or str(opening_of(game.end().board()))


def within(game: chess.pgn.Game, least: int, most: int) -> bool:
    ratings = [int(game.headers.get(f"{side}Elo", 0)) for side in ("White", "Black")]
    return all(least <= rating <= most for rating in ratings)


@pytest.mark.parametrize(
    ("filters", "fits"),
    [
        ({"player": "tal"}, lambda game: played(game, "Tal")),
        ({"player": "tal", "color": "black"}, lambda game: sides(game)[1].startswith("Tal")),
        ({"player": "pele"}, lambda game: played(game, "Pel")),
        ({"player": "keres", "opponent": "tal"}, lambda game: played(game, "Keres", "Tal")),
        (
            {"player": "keres", "opponent": "tal", "color": "white"},
            lambda game: played(game, "Keres", "Tal") and sides(game)[1].startswith("Tal"),
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
    pages = [list_games(store, None, by=by, down=down, first=k, most=30) for k in range(0, len(games()), 30)]
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


# ------------------------------------------------------------------ who played
ENDING = "7k/8/8/8/8/8/4P3/4K3 w - - 0 1"
GAMES = [
    '[Event "Cup"]\n[Site "Oslo"]\n[Date "2024.03.15"]\n[Round "2.1"]\n[White "Carlsen, Magnus"]\n'
    '[Black "Vachier-Lagrave, Maxime"]\n[WhiteElo "2830"]\n[BlackElo "?"]\n[ECO "C65"]\n[Result "1-0"]\n\n'
    "1. e4 {a comment} e5 2. Nf3 (2. f4 exf4) Nc6 3. Bb5\nNf6 4. O-O 1-0",
    '[White "Broken"]\n[Black "Nobody"]\n[Result "*"]\n\n1. e4 e5 2. Ke3 *',
    '[White "Carlsen, Magnus"]\n[Black "Pel\u00e9 <script>"]\n[Date "2020.??.??"]\n[Result "1/2-1/2"]\n\n'
    "1. d4 d5 1/2-1/2",
    f'[White "?"]\n[Black "Carlsen, M"]\n[SetUp "1"]\n[FEN "{ENDING}"]\n[Result "0-1"]\n\n1. e4 Kg7 0-1',
    '[White "Carlson"]\n[Black "Carlsen, Magnus"]\n[Result "*"]\n\n*',
]


def pgn(tmp_path: Path, *, end: str = "\n", head: bytes = b"", name: str = "games.pgn") -> Path:
    """Returns a file with the games, in UTF-8; it has a blank line between moves, which no text keeps."""
    text = "".join(f"{game}\n\n" for game in GAMES).replace("3. Bb5\n", "3. Bb5\n\n")
    data = head + text.replace("\n", end).encode()
    path = tmp_path / name
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


def imported(store: Path, file: Path, **options: object) -> importing.FileReport:
    (report,) = import_files("pgn", store, [importing.GivenFile(str(file))], **options)  # type: ignore[arg-type]
    return report


def kept(path: Path) -> dict[int, tables.GameRow]:
    with Store.open(path, read_only=True) as store:
        rows = tables.games_of(store, [row.id for row in players(path).rows])
        return {row.number: row for row in rows}


def counts(path: Path) -> list[object]:
    return list(sql(path, "SELECT * FROM game_move ORDER BY key, move"))


def moves_of(row: tables.GameRow) -> list[str]:
    board, found = chess.Board(row.fen or chess.STARTING_FEN), []
    for number in row.moves:
        board.push(legal_moves(board)[number])
        found.append(board.peek().uci())
    return found


@pytest.mark.parametrize(
    ("end", "head", "name"),
    [("\n", b"", "a.pgn"), ("\r\n", b"\xef\xbb\xbf", "b.pgn"), ("\n", b"", "c.pgn.gz")],
)
def test_names_moves_and_text_are_those_of_the_file(tmp_path: Path, end: str, head: bytes, name: str) -> None:
    file, store = pgn(tmp_path, end=end, head=head, name=name), tmp_path / "a.graph"
    report = imported(store, file, players=True)
    assert (report.taken, report.skipped, report.players) == (4, 1, 4)
    found = kept(store)
    assert sorted(found) == [1, 3, 4, 5]
    for number, row in found.items():
        game = chess.pgn.read_game(io.StringIO(GAMES[number - 1]))
        assert game is not None
        assert moves_of(row) == [move.uci() for move in game.mainline_moves()]
        assert game_text(store, 1, number)[0].replace("\r\n", "\n") == GAMES[number - 1]
    first = found[1]
    assert (first.white, first.black) == ("Carlsen, Magnus", "Vachier-Lagrave, Maxime")
    assert (first.white_elo, first.black_elo) == (2830, None)
    assert (first.date, first.event, first.site) == ("2024-03-15", "Cup", "Oslo")
    assert (first.round, first.result, first.eco) == ("2.1", "1-0", "C65")
    assert (found[3].black, found[3].date, found[3].event) == ("Pel\u00e9 <script>", "2020", None)
    assert (found[4].white, found[4].fen, found[4].result) == (None, ENDING, "0-1")
    assert verify(store).problems == []


def test_players_are_added_later_without_counting_again(tmp_path: Path) -> None:
    file, late, at_once = pgn(tmp_path), tmp_path / "late.graph", tmp_path / "once.graph"
    imported(late, file)
    before = counts(late)
    with pytest.raises(InvalidParameterError, match="--players` adds them"):
        players(late)
    report = imported(late, file, players=True)
    assert (report.state, report.new_taken, report.players, report.problems) == ("players", 0, 4, [])
    imported(at_once, file, players=True)
    assert counts(late) == counts(at_once) == before
    assert kept(late) == kept(at_once)
    assert imported(late, file, players=True).state == "known"
    assert imported(late, file).state == "known"


def test_an_import_with_players_that_was_stopped_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "SAY_SECONDS", -1.0)
    monkeypatch.setattr(pgn_import, "GAMES_AT_ONCE", 7)
    file, store = tmp_path / "many.pgn", tmp_path / "a.graph"
    file.write_text("".join(f"{game}\n\n" for game in GAMES * 20))
    for progress_at, names in ((30, False), (20, True), (60, True)):
        stop = threading.Event()

        def look(progress: object, at: int = progress_at, stop: threading.Event = stop) -> None:
            if progress.count >= at:  # type: ignore[attr-defined]
                stop.set()

        report = imported(store, file, players=names, stop=stop, on_progress=look)
        assert report.state == "stopped"
        assert 0 < report.taken < 80
    assert imported(store, file, players=True).state in ("continued", "players")
    imported(tmp_path / "b.graph", file, players=True)
    assert counts(store) == counts(tmp_path / "b.graph")
    assert kept(store) == kept(tmp_path / "b.graph")
    assert len(kept(store)) == 80
    file.unlink()
    for number in kept(store):  # the graph file has every text once
        assert game_text(store, 1, number)[0] == GAMES[(number - 1) % len(GAMES)]
    places = sql(store, "SELECT place, bytes FROM game_text ORDER BY place")
    assert all(place + size == following for (place, size), (following, _) in pairwise(places))


def test_games_of_a_file_that_was_imported_twice_count_once(tmp_path: Path) -> None:
    file, store = pgn(tmp_path), tmp_path / "a.graph"
    for options in ({}, {"again": True}, {"max_ply": 4}):
        imported(store, file, players=True, **options)
    found = players(store)
    assert found.games == 4
    assert {row.name: (row.white, row.black) for row in found.rows}["Carlsen, Magnus"] == (2, 1)
    with Store.open(store, read_only=True) as opened:
        assert len(tables.sources(opened)) == 3
        assert {row.source for row in tables.games_of(opened, [row.id for row in found.rows])} == {2}


def test_a_name_is_exact_or_a_unique_part_of_one(tmp_path: Path) -> None:
    store = tmp_path / "a.graph"
    imported(store, pgn(tmp_path), players=True)
    with Store.open(store, read_only=True) as opened:

        def who(*names: str) -> list[str]:
            return [row.name for row in named(opened, names)]

        assert who("Carlsen, M") == ["Carlsen, M"], "exact, though a longer name begins so"
        assert who("magnus CARLSEN") == ["Carlsen, Magnus"]
        assert who("pele", "lagrave") == ["Pel\u00e9 <script>", "Vachier-Lagrave, Maxime"]
        with pytest.raises(InvalidParameterError, match=r"3 players .*Carlsen, Magnus \(3\).*Carlson \(1\)"):
            who("carls")
        with pytest.raises(InvalidParameterError, match="no games of 'Fischer'"):
            who("Fischer")
        with pytest.raises(InvalidParameterError, match="no games of '%'"):
            who("%")


@pytest.mark.parametrize("loss", ["DELETE FROM game_text", "UPDATE game SET place = bytes - 1, bytes = 1"])
def test_a_game_whose_text_was_lost_has_headers_and_moves(tmp_path: Path, loss: str) -> None:
    file, store = pgn(tmp_path), tmp_path / "a.graph"
    imported(store, file, players=True)
    file.unlink()
    assert game_text(store, 1, 1)[0] == GAMES[0]  # the graph file has it
    sql(store, loss)
    read, whole = (chess.pgn.read_game(io.StringIO(text)) for text in (game_text(store, 1, 1)[0], GAMES[0]))
    assert read is not None
    assert whole is not None
    assert [*read.mainline_moves()] == [*whole.mainline_moves()]
    assert read.headers["White"] == whole.headers["White"]
    with pytest.raises(InvalidParameterError, match="has no game 1:2"):
        game_text(store, 1, 2)


def test_a_game_of_chess960_without_its_text_is_written_as_one(tmp_path: Path) -> None:
    given, path = tmp_path / "960.pgn", tmp_path / "games.graph"
    given.write_text('[FEN "4k3/8/8/8/8/8/8/1R2K1R1 w BG - 0 1"]\n\n1. O-O Kd7 *\n')
    import_files("pgn", path, [importing.GivenFile(str(given))], players=True)
    (game,) = list_games(path).games
    read = chess.pgn.read_game(io.StringIO(plain_text(game.row)))
    assert read is not None
    assert read.headers.get("Variant") == "Chess960"
    assert [move.uci() for move in read.mainline_moves()] == ["e1g1", "e8d7"]


def test_the_commands_print_tables_and_objects(cli: Cli, tmp_path: Path) -> None:
    file, store = pgn(tmp_path), tmp_path / "a.graph"
    assert "players of" not in cli("import", file, "--store", store).out
    assert "players of 4 games added" in cli("import", file, "--players", "--store", store).out
    assert cli("games", store, "--list", "--lines", 1, "-o", "-").ends(0, "note: 3 more").out.startswith("[")


# ------------------------------------------------------------------ novelties and preparation
PLIES, WIDTH, MADE = 6, 3, 150
RESULTS = {"1-0": 1.0, "0-1": 0.0, "1/2-1/2": 0.5}
PLAYERS = ("Ann", "Bob", "Cid")


class Made:
    """A graph file with games of three players, and what an oracle needs of both.

    Attributes:
      games: white, black, result, SAN moves. nodes: moves of the graph by EPD: SAN -> (n, q).
    """

    def __init__(self, folder: Path) -> None:
        rng = random.Random(3)
        self.games = [self._game(rng) for _ in range(MADE)]
        self.lines = self._lines(rng)
        self.path = graph_file(folder / "a.graph", self.lines)
        text = folder / "games.pgn"
        text.write_text(
            "".join(
                f'[White "{white}"]\n[Black "{black}"]\n[Date "{2000 + i}.01.01"]\n[Result "{result}"]\n\n'
                f"{' '.join(sans)} {result}\n\n"
                for i, (white, black, result, sans) in enumerate(self.games)
            )
        )
        import_files("pgn", self.path, [importing.GivenFile(str(text))], players=True)
        self.nodes = {after_line(line).epd(): edges for line, edges in self.lines.items()}

    @staticmethod
    def _game(rng: random.Random) -> tuple[str, str, str, list[str]]:
        board, sans = chess.Board(), []
        for _ in range(rng.randint(2, PLIES)):
            moves = sorted(board.legal_moves, key=lambda move: (move.to_square * 7 + move.from_square) % 31)
            sans.append(board.san(moves[min(WIDTH - 1, int(rng.expovariate(1.0)))]))
            board.push_san(sans[-1])
        white, black = rng.sample(PLAYERS, 2)
        return white, black, rng.choice([*RESULTS, "*"]), sans

    def _lines(self, rng: random.Random) -> dict[str, dict[str, tuple[int, float]]]:
        """Returns records for two of three positions of the games: some of their moves, and others."""
        lines: dict[str, dict[str, tuple[int, float]]] = {"": {}}
        known = set()
        for *_, sans in self.games:
            for k in range(len(sans)):
                line = " ".join(sans[:k])
                epd = after_line(line).epd()
                if epd not in known and (not line or rng.random() < 0.66):
                    lines[line] = self._edges(rng, after_line(line), sans[k])
                known.add(epd)
        return lines

    @staticmethod
    def _edges(rng: random.Random, board: chess.Board, played: str) -> dict[str, tuple[int, float]]:
        sans = [board.san(move) for move in board.legal_moves]
        some = {*rng.sample(sans, min(4, len(sans))), played}
        return {
            san: (n, rng.uniform(-0.5, 0.5))
            for san, n in zip(sorted(some), rng.sample(range(5, 400), len(some)), strict=True)
        }


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return Made(tmp_path_factory.mktemp("novelties"))


# ------------------------------------------------------------------ novelties
@cache
def counted(made: Made) -> dict[str, Counter[str]]:
    """Returns the games of each move by EPD, counted by hand; a game counts once."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for *_, sans in made.games:
        board, seen = chess.Board(), set()
        for san in sans:
            seen.add((board.epd(), san))
            board.push_san(san)
        for epd, san in seen:
            found[epd][san] += 1
    return found


def expected(made: Made, rules: Rules) -> tuple[dict[tuple[str, str], float], dict[tuple[str, str], float]]:
    """Returns the weights of novelties and of popular moves that lose, by EPD and SAN."""
    counts = counted(made)
    new, popular = {}, {}
    for epd, edges in made.nodes.items():
        reached, total = sum(counts[epd].values()), sum(n for n, _ in edges.values())
        if reached < rules.min_games or 1 + total < rules.min_visits:
            continue
        most, best = max(edges.values())
        for san, (n, q) in edges.items():
            board = chess.Board(f"{epd} 0 1")
            board.push_san(san)
            behind, games = sum(counts[board.epd()].values()), counts[epd][san]
            cost = max(0, cp_of(best) - cp_of(q))
            if n < rules.move_visits:
                continue
            is_best = n == most and n / total >= rules.share
            liked = is_best if rules.cp is None else cost <= rules.cp
            if games <= rules.games and behind <= rules.games and liked:
                new[epd, san] = reached * n / total
            if games > rules.games and games >= rules.popular * reached and cost >= rules.loss:
                popular[epd, san] = games * max(0.0, best - q) / 2
    return new, popular


def weights(moves: tuple[NotableMove, ...]) -> dict[tuple[str, str], float]:
    return {(chess.Board(move.position).epd(), move.step.san): move.weight for move in moves}


@pytest.mark.parametrize(
    "rules",
    [
        Rules(min_games=2, min_visits=2),
        Rules(min_games=3, min_visits=300, games=2, share=0.2, popular=0.15, loss=10),
        Rules(min_games=1, min_visits=2, cp=40),
        Rules(min_games=1, min_visits=2, move_visits=1, cp=20),
    ],
)
def test_novelties_and_popular_mistakes_are_those_counted_by_hand(made: Made, rules: Rules) -> None:
    found = novelties(made.path, chess.Board(), rules=rules, top=10_000)
    new, popular = expected(made, rules)
    assert len(new) > 3
    assert len(popular) > 3
    assert weights(found.novelties) == pytest.approx(new, rel=1e-5)
    assert weights(found.popular) == pytest.approx(popular, rel=1e-5, abs=1e-6)
    for move in (*found.novelties, *found.popular):
        board = after_line(" ".join(move.line))
        assert board.epd() == chess.Board(move.position).epd()
        assert board.san(move.step.move) == move.step.san


def test_games_that_meet_by_transposition_count_together(tmp_path: Path) -> None:
    joined = "Nf3 d5 g3 Nf6"
    path = graph_file(tmp_path / "a.graph", {joined: {"Bg2": (300, 0.1), "c4": (100, 0.1)}})
    orders = [joined, "g3 Nf6 Nf3 d5", "Nf3 Nf6 g3 d5"]
    text = tmp_path / "games.pgn"
    text.write_text("".join(f'[Result "1-0"]\n\n{order} d3 1-0\n\n' for order in orders))
    import_files("pgn", path, [importing.GivenFile(str(text))])
    for least in (2, 3):
        found = novelties(path, chess.Board(), rules=Rules(min_games=least, cp=15))
        assert [(move.step.san, move.here.games) for move in found.novelties] == [("Bg2", 3), ("c4", 3)]
        assert after_line(" ".join(found.novelties[0].line)).epd() == after_line(joined).epd()


def test_a_move_of_games_that_is_not_legal_is_damage(made: Made, tmp_path: Path) -> None:
    path = Path(shutil.copy(made.path, tmp_path))
    sql(
        path,
        "UPDATE game_move SET move = 'e2e5' WHERE move = 'e2e4' OR key = '463b96181691fc9c' AND move = "
        "(SELECT min(move) FROM game_move WHERE key = '463b96181691fc9c')",
    )
    with pytest.raises(CorruptRecordError, match=r"not legal in its position .463b96181691fc9c e2e5"):
        novelties(path, chess.Board())


# ------------------------------------------------------------------ preparation
def departures(
    made: Made, name: str, color: str | None, inside: set[str], *, of_book: bool = False
) -> dict[tuple[str, str], list[float]]:
    """Returns the scores of a player with the moves that leave some positions, by hand.

    The best move of the graph never leaves it: there only the searched part ends.
    """
    best = {epd: max(edges, key=lambda san: edges[san]) for epd, edges in made.nodes.items() if edges}
    best = {} if of_book else best
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for white, black, result, sans in made.games:
        own = chess.WHITE if white == name else chess.BLACK
        if name not in (white, black) or (color and color != chess.COLOR_NAMES[own]):
            continue
        board, left = chess.Board(), set()
        for san in sans:
            before = board.epd()
            turn = board.turn
            board.push_san(san)
            if before in inside and turn == own and board.epd() not in inside and best.get(before) != san:
                left.add((before, san))
        score = RESULTS.get(result, -1.0)
        for place in left:
            found[place].append(score if own or score < 0 else 1 - score)
    return found


def told(moves: tuple[Departure, ...]) -> dict[tuple[str, str], tuple[int, float | None]]:
    return {(chess.Board(m.position).epd(), m.san): (m.games, m.score) for m in moves}


@pytest.mark.parametrize("color", ["white", "black", None])
def test_moves_that_leave_the_graph_are_those_counted_by_hand(made: Made, color: str | None) -> None:
    found = prepare(made.path, ["ann"], color=color, min_visits=2, top=None)
    inside = {epd for epd, edges in made.nodes.items() if edges}
    by_hand: dict[tuple[str, str], tuple[int, float | None]] = {}
    for place, scores in departures(made, "Ann", color, inside).items():
        known = [score for score in scores if score >= 0]
        by_hand[place] = len(scores), fmean(known) if known else None
    assert len(by_hand) > 5
    assert told(found.moves) == by_hand
    own = [game for game in made.games if "Ann" in (game[:2] if color is None else (game[color == "black"],))]
    assert found.games == len(own) == found.entered
    assert [move.games for move in found.moves] == sorted((m.games for m in found.moves), reverse=True)


def test_a_game_of_one_player_against_himself_counts_once() -> None:
    game: Any = SimpleNamespace(white="Ann", black="Ann")
    other: Any = SimpleNamespace(white="Ann", black="Bob")
    assert sides_of([game, other], {"Ann"}, None) == [(game, True), (other, True)]
    assert sides_of([game], {"Ann"}, "black") == [(game, False)]
    assert sides_of([other], {"Ann", "Bob"}, None) == [(other, True), (other, False)]


def test_only_late_games_and_moves_that_are_played_often_count(made: Made) -> None:
    late = prepare(made.path, ["Cid"], since="2100-01-01", min_visits=2)
    own = [game for i, game in enumerate(made.games) if i >= 100 and "Cid" in game[:2]]
    assert late.games == len(own)
    often = prepare(made.path, ["Cid"], min_games=2, min_visits=2, top=2)
    assert min(move.games for move in often.moves) >= 2
    assert often.total >= len(often.moves) == 2
    for wrong in (
        {"since": "May"},
        {"since": "2022-13"},
        {"since": "2022-01-32"},
        {"color": "red"},
        {"by": "luck"},
        {"book": "x"},
    ):
        with pytest.raises(InvalidParameterError):
            prepare(made.path, ["Cid"], **wrong)  # type: ignore[arg-type]


def test_lists_write_mates_and_a_mate_is_a_weak_spot_with_one_visit(cli: Cli, tmp_path: Path) -> None:
    path, file, line = tmp_path / "m.graph", tmp_path / "m.pgn", "1. e4 e5 2. Qh5 Nc6 3. Bc4"
    file.write_text(f'[Black "Bob"]\n\n{line} Nf6 4. Qxf7# 1-0\n')
    cli("analyze", path, line, "--visits", 100)
    cli("import", path, file, "--players")
    cli("repertoire", "add", path, f"{line} Nf6", "--side", "black")
    for words in (["games", path, line], ["prepare", path, "--player", "Bob"], ["repertoire", "show", path]):
        assert any("Nf6" in row and "#1" in row for row in cli(*words).out.splitlines())
    (black,) = cli("repertoire", "show", path, "--side", "black", "--json").json["repertoires"]
    weak = [(spot["move"]["san"], spot["move"]["nag"]) for spot in black["weak"] if spot["move"]["mate"]]
    assert weak == [("Nf6", 4)]


def test_games_of_black_leave_a_white_book_that_bounds_novelties(
    made: Made, tmp_path: Path, cli: Cli
) -> None:
    made = copy(made)
    made.path = Path(shutil.copy(made.path, tmp_path))
    lines = ["", *{" ".join(sans[:k]) for *_, sans in made.games for k in (1, 2, 3) if sans[0] < "c"}]
    add_book(made.path, "white", "white", [chess.STARTING_FEN], dict.fromkeys(lines, 0.0))
    inside = {after_line(line).epd() for line in lines}
    found = prepare(made.path, ["Ann"], book="white", top=None)
    assert found.color == "black"
    by_hand = departures(made, "Ann", "black", inside, of_book=True)
    assert {place: games for place, (games, _) in told(found.moves).items()} == {
        place: len(scores) for place, scores in by_hand.items()
    }
    rules = Rules(min_games=1, min_visits=2)
    new = {place: weight for place, weight in expected(made, rules)[0].items() if place[0] in inside}
    told_new = weights(novelties(made.path, book="white", rules=rules, top=10_000).novelties)
    assert told_new == pytest.approx(new, rel=1e-5)
    first = max(line for line in lines if line and " " not in line)
    below = {line.partition(" ")[2]: 0.0 for line in lines if line.split()[:1] == [first]}
    add_book(made.path, "other", "white", [after_line(first).fen()], below)
    listed = novelties(made.path, book="other", rules=rules).novelties
    assert {move.line[0] for move in listed} == {first}, "the whole game: a book may have several roots"
    answer = cli("prepare", "--player", "ann", "--book", "white", "--store", made.path, "--json")
    assert [move["games"] for move in answer.json["moves"]] == [move.games for move in found.moves[:30]]
