"""Games that kernels replay are those that `chess.pgn` reads, one by one."""

from __future__ import annotations

import io
import random
from dataclasses import replace
from pathlib import Path

import pytest

from graphsearch.exchange import pgn_import
from graphsearch.exchange.importing import FileReport, GivenFile
from graphsearch.exchange.imports import import_files
from graphsearch.exchange.pgn_import import sure_game
from graphsearch.position.pgn import cut_games, read_game

from ..conftest import shared_data, sql
from ..fuzz.pgn_games import generated, mutated, sure_fault

LICHESS = (
    '[Event "Rated Blitz game"]\n[Site "https://lichess.org/abcdefgh"]\n[Date "2024.01.31"]\n[White "A"]\n'
    '[Black "B"]\n[Result "1-0"]\n[UTCDate "2024.01.31"]\n[WhiteElo "1900"]\n[BlackElo "?"]\n'
    '[Variant "Standard"]\n[ECO "B20"]\n\n'
    "1. e4 { [%eval 0.2] [%clk 0:03:00] } 1... c5?! { [%eval 0.5] } 2. Nf3 d6?! 1-0\n\n\n"
)
CHESS_COM = (
    '[Event "Live Chess"]\n[Site "Chess.com"]\n[Date "2024.02.01"]\n[Round "-"]\n[White "A"]\n[Black "C"]\n'
    '[Result "0-1"]\n[CurrentPosition "8/8/8/8/8/8/8/8 w - -"]\n[ECOUrl "https://www.chess.com/openings/x"]\n\n'
    "1. d4 {[%clk 0:09:59.9]} 1... d5 {[%clk 0:09:58]} 2. c4 {[%clk 0:09:50]} 2... dxc4 0-1\n\n"
)
LONG = (
    '[White "A"]\n[FEN "r3k2r/1P6/8/4Pp2/8/8/1p6/R3K2R w KQkq f6 0 30"]\n[SetUp "1"]\n\n'
    "30. exf6 bxa1=Q+ 31. Kf2 Qd4+ 32. Kf3 O-O-O {a\n\nb} 33. bxc8Q (33. Rh8 {(} Rxh8) ; ) } [\n"
    "33... Kxc8 *\n\n"
)
KNIGHTS = '[Black "D"]\n\n1. Nf3 Nf6 2. Nc3 Nc6 3. Nb5 a6 4. Nbd4 e5 5. Nb1 *\n\n'
ODD = (
    "1. e4 e5 *\n\n",
    '[White "B"]\n\n1. e4 e5 2. Ke3 *\n\n',
    '[White "C"]\n\n1. e4 e5 2. -- d5 1-0\n\n',
    '[White "D\\"x"]\n\n1. e4 (1. d4 resigns) e5 resigns 1-0\n\n',
    '[White "E"]\n\n1. e2e4 e7e5 1/2\n\n',
    '[White "F"]\n\n1. e4 {open e5\n\n[Event "G"]\n\n1. d4 d5 1/2-1/2 {after}\n\n',
    '[Event "H"]\n[Variant "Atomic"]\n\n1. e4 *\n\n',
    '[Event "I"]\n[Variant "Chess960"]\n'
    '[FEN "nbbrknrq/pppppppp/8/8/8/8/PPPPPPPP/NBBRKNRQ w GDgd - 0 1"]\n\n1. f3 f6 *\n\n',
    '[Event "J"]\n[SetUp "1"]\n\n1. e4 *\n\n',
    '[Event "K"]\n[FEN "8/8/8/8/8/8/8/8 w - - 0 1"]\n\n1. e4 *\n\n',
    '[Event "L"]\n[FEN "7k/8/8/8/8/8/8/K6R w - - 254 200"]\n\n200. Rh2+ Kg7 201. Rh3 Kg6 *\n\n',
    '[Event "M"]\r\n\r\n1. e4 e5\r\n% a line\r\n2. Nf3 *\r\n\r\n',
    '[Event "N"]\r\r1. e4 e5 *\r\r',
    '[Event "O"]\n\n1. Nf3 Nf6 2. Ng1 Ng8 3. Nf3 Nf6 4. Ng1 Ng8 5. e4 0-1\n\n',
    '[Event "P"]\n\n' + "1. e4 " + "(1. d4 " * 1001 + ")" * 1001 + " e5 *\n\n",
    '[Event "Q"]\n\n' + "1. e4 " + "(1. d4 " * 999 + ")" * 999 + " e5 *\n\n",
    '[Event "R"]\n\n1. e4 e5 2. Pd4 *\n\n',
    '[Event "S"]\n\n*\n\n',
    '[Event "T"]\n[Result "1-0"]\n\n1. e4 0-1\n\n',
    '[Event "U"]\n\n1. e4 e5 20000. Nf3 *\n\n',
    '[Event "V"]\n\n00001.e4 e5 *\n\n',
)
SOUND = (LICHESS, CHESS_COM, LONG, KNIGHTS)
TEXTS = [
    "".join(SOUND),
    "".join(odd + SOUND[i % 4] for i, odd in enumerate(ODD)),
    "".join(ODD),
    KNIGHTS.strip(),
]


def test_mutated_games_are_the_same_both_ways(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(20):
        rng = random.Random(seed)
        bases = [generated(rng) for _ in range(10)]
        parts = (mutated(base, rng) if rng.random() < 0.3 else f"{base}\n" for base in bases)
        data = "".join(parts).encode(rng.choice(("utf-8", "cp1252")), "replace").replace(b"\0", b"")
        (tmp_path / str(seed)).mkdir()
        monkeypatch.setattr(pgn_import, "GAMES_IN_BLOCK", rng.choice((3, 500)))
        check_same(data, tmp_path / str(seed), monkeypatch)


def imported(path: Path, text: bytes, **options: int | None) -> FileReport:
    [report] = import_files(
        "pgn",
        path,
        [GivenFile("games.pgn", io.BytesIO(text))],
        players=True,
        **options,  # type: ignore[arg-type]
    )
    return report


def check_same(
    text: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **options: int | None
) -> FileReport:
    """Checks that reports and tables are the same whichever way the games are read and played."""
    fast, slow = tmp_path / "fast.graph", tmp_path / "slow.graph"
    report = imported(fast, text, **options)
    monkeypatch.setattr(pgn_import, "sure_game", lambda text: None)
    expected = imported(slow, text, **options)
    monkeypatch.undo()
    assert replace(report, seconds=0.0) == replace(expected, seconds=0.0)
    for query in (
        "SELECT * FROM game_position ORDER BY key",
        "SELECT * FROM game_move ORDER BY key, move",
        "SELECT number, place, bytes, result, date, eco, fen, moves, white_elo FROM game ORDER BY number",
        "SELECT number, name FROM game LEFT JOIN player ON player.id = game.white ORDER BY number",
    ):
        assert sql(fast, query) == sql(slow, query)
    return report


@pytest.mark.parametrize(("max_ply", "size"), [(None, 500), (None, 1), (3, 500)])
@pytest.mark.parametrize("text", TEXTS)
def test_tables_and_reports_are_the_same(
    text: str, max_ply: int | None, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pgn_import, "GAMES_IN_BLOCK", size)
    check_same(text.encode(), tmp_path, monkeypatch, max_ply=max_ply)


@pytest.mark.parametrize(
    "name",
    [
        "kasparov-deep-blue-1997.pgn",
        "cutechess-fischerrandom.pgn",
        "chessbase-empty-line.pgn",
        "8moves_v3_first8000.pgn",
    ],
)
def test_tables_of_real_files_are_the_same(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = shared_data(f"data/{name}").read_bytes()[:25_000]
    assert check_same(text, tmp_path, monkeypatch).taken > 0


def test_games_of_lichess_and_chess_com_are_sure() -> None:
    texts = cut_games((LICHESS + CHESS_COM + KNIGHTS).splitlines(keepends=True))
    assert [len(game.moves) for text in texts if (game := sure_game(text))] == [4, 4, 9]


@pytest.mark.parametrize("text", [*SOUND, *ODD])
def test_sure_games_are_read_as_python_chess_reads_them(text: str) -> None:
    assert not any(sure_fault(game, read_game(game)) for game in cut_games(text.splitlines(keepends=True)))
