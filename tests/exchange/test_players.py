"""Who played: what `import --players` keeps, against python-chess; once, and on after an interruption."""

from __future__ import annotations

import gzip
import io
import threading
from itertools import pairwise
from pathlib import Path

import chess
import chess.pgn
import pytest

from graphsearch.base.errors import InvalidParameterError
from graphsearch.exchange import importing, pgn_import
from graphsearch.exchange.importing import FileReport, GivenFile
from graphsearch.exchange.imports import import_files
from graphsearch.exchange.kept_games import game_text, plain_text
from graphsearch.position.board import legal_moves
from graphsearch.query.game_list import list_games, named, players
from graphsearch.store.store import Store
from graphsearch.store.tables import games as game_tables
from graphsearch.store.tables.games import GameRow, games_of
from graphsearch.store.verify import verify

from ..conftest import Cli, sql

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
    """Returns a file with the games, in UTF-8."""
    data = head + "".join(f"{game}\n\n" for game in GAMES).replace("\n", end).encode()
    path = tmp_path / name
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


def imported(store: Path, file: Path, **options: object) -> FileReport:
    (report,) = import_files("pgn", store, [GivenFile(str(file))], **options)  # type: ignore[arg-type]
    return report


def kept(path: Path) -> dict[int, GameRow]:
    with Store.open(path, read_only=True) as store:
        rows = games_of(store, [row.id for row in players(path).rows])
        return {row.number: row for row in rows}


def counts(path: Path) -> list[object]:
    return list(sql(path, "SELECT * FROM game_move ORDER BY key, move"))


def moves_of(row: GameRow) -> list[str]:
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
        text = game_text(store, 1, number)[0]
        assert text.replace("\r\n", "\n") == GAMES[number - 1]
    first = found[1]
    assert (first.white, first.black, first.white_elo, first.black_elo) == (
        *("Carlsen, Magnus", "Vachier-Lagrave, Maxime"),
        *(2830, None),
    )
    assert (first.date, first.event, first.site, first.round, first.result, first.eco) == (
        *("2024-03-15", "Cup", "Oslo"),
        *("2.1", "1-0", "C65"),
    )
    assert (found[3].black, found[3].date, found[3].event) == ("Pel\u00e9 <script>", "2020", None)
    assert (found[4].white, found[4].fen, found[4].result) == (None, ENDING, "0-1")
    assert verify(store).problems == []


def test_without_the_option_nothing_is_kept_and_it_is_added_later_without_counting_again(
    tmp_path: Path,
) -> None:
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
        assert len(game_tables.sources(opened)) == 3
        assert {row.source for row in games_of(opened, [row.id for row in found.rows])} == {2}


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


def test_a_game_whose_text_was_lost_has_headers_and_moves(tmp_path: Path) -> None:
    file, store = pgn(tmp_path), tmp_path / "a.graph"
    imported(store, file, players=True)
    file.unlink()
    assert game_text(store, 1, 1)[0] == GAMES[0]  # the graph file has it
    sql(store, "DELETE FROM game_text")
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
    import_files("pgn", path, [GivenFile(str(given))], players=True)
    (game,) = list_games(path).games
    read = chess.pgn.read_game(io.StringIO(plain_text(game.row)))
    assert read is not None
    assert read.headers.get("Variant") == "Chess960"
    assert [move.uci() for move in read.mainline_moves()] == ["e1g1", "e8d7"]


def test_the_commands_print_tables_and_objects(cli: Cli, tmp_path: Path) -> None:
    file, store = pgn(tmp_path), tmp_path / "a.graph"
    assert "players of" not in cli("import", file, "--store", store).out
    assert "players of 4 games added" in cli("import", file, "--players", "--store", store).out
