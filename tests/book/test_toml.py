"""BOOK.toml: what an author writes is taken as meant, and what is wrong is told with its line."""

from __future__ import annotations

import re
from pathlib import Path

import chess
import pytest

from graphsearch.book.config import (
    TABLES,
    BookConfig,
    Expansion,
    Leaf,
    Window,
    parse_config,
    read_config,
)
from graphsearch.position.board import key_text

from ..conftest import ROOT

HEAD = '[book]\nside = "white"\nmax_ply = 24\n'
HERE = Path("/nowhere")
KEYS = {name: tuple(table.model_fields) for name, table in TABLES.items()}


def parsed(text: str, folder: Path = HERE) -> BookConfig:
    return parse_config(HEAD + text, folder, "book.toml")


# ------------------------------------------------------------ what is meant
def test_a_book_needs_its_side_and_its_length_alone() -> None:
    book = parsed("")
    assert (book.name, book.side, book.max_ply, book.text) == ("book", "white", 24, HEAD)
    assert [(root.board.fen(), root.origin) for root in book.roots] == [(chess.STARTING_FEN, "root 1")]
    assert (book.windows, book.expansion, book.leaf) == ((Window(),), Expansion(), Leaf())
    assert (book.forced, book.excluded, book.notes) == ({}, {}, ())


def test_everything_is_read() -> None:
    book = parsed(
        """name = "mine"
        [[root]]
        moves = "1. d4 d5"
        [[root]]
        fen = "4k3/8/8/8/8/8/4P3/4K3 w - - 0 5"
        moves = "e4 Kd7"
        [expansion]
        policy = "cost"
        per_ply = 2
        per_loss = 5
        per_log_p = 0
        per_move = 0.5
        [[window]]
        plies = [0, 12]
        own_cp = 15
        reply_p = 0.05
        reply_games = 20
        [[window]]
        plies = [13]
        own_cp = 5
        own_moves = 2
        reply_cp = 30
        reply_moves = "all"
        [[force]]
        moves = "1. d4 d5"
        play = ["c4", "g1f3"]
        only = true
        [[exclude]]
        moves = "1. d4 d5"
        play = ["Bg5"]
        [evaluator]
        policy = "uniform"
        options = { "value.PolicyTemperature" = 1.5 }
        [leaf]
        visits = 50
        params = { MinibatchSize = 32, gather = "classic" }
        """
    )
    assert book.name == "mine"
    assert [root.board.ply() for root in book.roots] == [2, 10]
    assert book.windows == (
        Window(plies=[0, 12], own_cp=15, reply_p=0.05, reply_games=20),
        Window(plies=[13], own_cp=5, own_moves=2, reply_cp=30),
    )
    assert book.expansion == Expansion(policy="cost", per_ply=2, per_loss=5, per_log_p=0, per_move=0.5)
    assert book.leaf == Leaf(evaluations=None, visits=50, params={"MinibatchSize": "32", "gather": "classic"})
    key = key_text(book.roots[0].board)
    assert (book.forced, book.excluded) == ({key: ("c2c4", "g1f3")}, {key: ("c1g5",)})
    assert book.only == {key}
    assert (book.evaluator.policy, book.evaluator.options) == (
        "uniform",
        (("value.PolicyTemperature", "1.5"),),
    )
    assert book.notes == ()


def test_files_are_looked_for_beside_the_toml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "engine").write_text("#!/bin/sh\n")
    (tmp_path / "engine").chmod(0o755)
    (tmp_path / "tables").mkdir()
    (tmp_path / "net.pb.gz").write_text("")
    toml = tmp_path / "white.toml"
    toml.write_text(
        HEAD + '[evaluator]\npolicy = "lc0:net.pb.gz"\nvalue = "uci:./engine -x"\n' + 'syzygy = "tables"\n'
    )
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    for path in (toml, Path("../white.toml")):
        book = read_config(path)
        assert book.name == "white"
        assert book.evaluator.policy is not None
        assert Path(book.evaluator.policy.removeprefix("lc0:")).is_absolute()
        assert book.evaluator.value is not None
        assert re.fullmatch(r"uci:/.*/engine -x", book.evaluator.value)


# ------------------------------------------------------------ documentation
def test_every_key_and_its_default_is_documented() -> None:
    text = (ROOT / "docs" / "books.md").read_text(encoding="utf-8")
    for section, keys in KEYS.items():
        part = text.partition(f"### `[{section}]`")[2] or text.partition(f"### `[[{section}]]`")[2]
        part = part.partition("\n### ")[0]
        assert part, section
        for key in keys:
            assert f"| `{key}`" in part, f"{section}.{key}"
    for name in ("alpha", "per_ply", "per_loss", "per_log_p", "per_move"):
        assert f"| `{name}` | {getattr(Expansion(), name):g} |" in text


def examples(name: str) -> list[str]:
    return re.findall(r"^```toml[^\n]*\n(.*?)^```", (ROOT / name).read_text(encoding="utf-8"), re.M | re.S)


def test_the_documented_examples_are_books(tmp_path: Path) -> None:
    found = [text for text in examples("docs/books.md") if "[book]" in text]
    assert len(found) == 3
    books = [parse_config(text, tmp_path, f"book{i}.toml") for i, text in enumerate(found)]
    assert [book.side for book in books] == ["white", "black", "both"]
    assert [book.notes for book in books] == [(), (), ()]
