"""Wrong use of any command: one line that names the fault, an exit code, and every file as it was."""

from __future__ import annotations

import importlib
import shlex
from pathlib import Path

import pytest

from ..conftest import Cli
from ..query.handmade import LINES, graph_file
from ..support.books import small_book
from .test_cli_input import assert_refused

GAMES = '[White "A"]\n[Black "B"]\n\n1. f3 e5 2. g4 Qh4# 0-1\n\n[White "B"]\n\n1. e4 Ke5 *\n'
TOML = '[book]\nside = "white"\nmax_ply = 4\n'

UNKNOWN = "8/8/8/4k3/8/4K3/4P3/8 w - - 0 1"  # is in no file
WRONG = {  # exit code 2
    "alphabeta startpos": "--depth",
    "alphabeta startpos --depth 0": "depth is 0",
    "alphabeta startpos --depth 127": "depth is 127",
    "alphabeta startpos --depth 2 --window 50 -50": "lower one first",
    "alphabeta startpos --depth 2 --window 5 5": "at least 0.1 apart",
    "alphabeta startpos --depth 2 --window 5 5.01": "5 5.01: both bounds round to 5",
    "alphabeta startpos --depth 2 --window nan 5": "finite numbers of centipawns",
    "alphabeta startpos --depth 2 --time -1": "seconds is -1",
    "alphabeta startpos --depth 2 --nodes 0": "nodes is 0",
    "alphabeta startpos --depth 2 --ram 0MB": "--ram",
    "alphabeta '8/8/8/8/8/8/8/8 w - - 0 1' --depth 2": "king",
    "alphabeta startpos --depth 2 --store none/a.graph": "does not exist",
    "alphabeta --time '5 weeks'": "such as 30, 5m or 2h",
    "analyse startpos": "analyse",
    "analyze no-such-file": "no-such-file",
    "analyze '8/8/8/8/8/8/8/8 w - - 0 1'": "no white king",
    "analyze rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR": "quotes",
    "analyze 4k3/8/8/8/8/8/8/4K3 w - - 0 1": "quotes",
    "analyze startpos --moves 'e4 e5 Ke3'": "'Ke3', is illegal",
    "analyze startpos --no-such-option": "--no-such-option",
    "analyze startpos --ply 3": "PGN",
    "analyze startpos --visits many": "--visits",
    "analyze startpos --visits 0": "visits must be",
    "analyze startpos --time -1": "time must be",
    "analyze startpos --time nan": "expected a number, not nan",
    "analyze startpos --param MinibatchSize=-1": "MinibatchSize must be",
    "analyze startpos --param CPuct": "NAME=VALUE",
    "analyze startpos --param CPuct=-1": "CPuct must be",
    "analyze startpos --param Nonsense=1": "unknown parameter 'Nonsense'",
    "analyze games.pgn --all": "needs a graph file",
    "analyze startpos --all --store new.graph": "needs a PGN file",
    "analyze games.pgn --all --ply 2 --store new.graph": "needs a PGN file",
    "analyze set.epd --searchmoves e4": "works for one position",
    "analyze set.epd -o set.epd": "the file that is read",
    "analyze startpos -o out.epd": "-o writes games",
    "analyze e4 e5 --visits 5": "put moves and a FEN in quotes",
    "analyze 8/8/8/k7/8/8/8/K7 w --visits 5": "put moves and a FEN in quotes",
    "games nonsense --store hand.graph": "no file 'nonsense'",
    "tree startpos --store none.graph": "does not exist",
    "book build green.toml --store new.graph": "green.toml:2",
    "book build none.toml --store hand.graph": "none.toml",
    "book build white.toml --store hand.graph --time 0": "time",
    "book queue nothing --store hand.graph": "no file 'nothing'",
    "book queue startpos --moves 'e4 e4' --store hand.graph": "'e4', is illegal",
    "book queue startpos --game 1 --store hand.graph": "need a PGN file",
    "book queue startpos startpos --moves e4 --store hand.graph": "needs exactly one position",
    "book queue - --ply 1 --store hand.graph": "cannot be used with stdin",
    "book queue startpos --drop 1 --store hand.graph": "one of the two",
    "book queue --drop x --store hand.graph": "whole number",
    "book queue --drop 77 --store hand.graph": "has no item 77",
    "book queue --drop 1 --book white --store hand.graph": "--book needs --drop all",
    "book queue --kind lost --store hand.graph": "waiting, done, refused, dropped, all",
    "book status --store none.graph": "does not exist",
    "book status --store bare.graph": "has no book; `book build` makes one",
    "book status --store hand.graph --book black": "has no book 'black'; it has 'white'",
    "book todo wihte --store hand.graph": "has no book 'wihte'; it has 'white'",
    "book todo white --kind holes --store hand.graph": "leaves, gaps, bottlenecks",
    "evaluate nothing": "no file 'nothing'",
    "evaluate startpos --evaluator no-such": "no-such",
    "evaluate startpos --lines x": "--lines",
    "evaluate startpos --param nonsense": "PolicyTemperature=X",
    "evaluate startpos --param Nonsense=1": "Nonsense",
    "evaluate none.epd": "none.epd",
    "export --format pgn --store hand.graph -o x e9": "'e9'",
    "export --format pgn --store hand.graph -o x nofile.pgn": "no file 'nofile.pgn'",
    "export --format pgn --store hand.graph -o x --side red": "not 'red'",
    "export --format pgn --store hand.graph -o x --book mine": "has no book 'mine'; it has 'white'",
    "export --format polyglot --store hand.graph -o -": "name a file",
    "export --format polyglot --store hand.graph -o x --weights best": "imported, not 'best'",
    "export --format epd --store hand.graph -o - --json": "--json and -o - both write to stdout",
    "export --format pgn --store hand.graph -o no/x.pgn": "make this folder first",
    "export --format pgn --store hand.graph -o .": "is a folder",
    "export --format pgn --store hand.graph -o hand.graph": "is the graph file itself",
    "import none.pgn --store new.graph": "none.pgn",
    "import --format epd none.epd --store new.graph": "none.epd",
    "import --format polyglot none.bin --store new.graph": "none.bin",
    "import - - --store new.graph": "only once",
    "import . --store new.graph": "is a folder",
    "import games.pgn --depth 0 --store new.graph": "--depth",
    "lab nodetypes --store hand.graph": "Missing argument 'POSITION'",
    "lab nodetypes startpos": "name a graph file",
    "lab nodetypes startpos --store hand.graph --rules knuth": "must be garms or kannan, not knuth",
    "lab perft nothing 1": "no file 'nothing'",
    "lab perft startpos -1": "-1",
    "lab refresh hand.graph --tolerance 0": "tolerance must be above 0",
    "lab refresh hand.graph --tolerance x": "--tolerance",
    "lab refresh hand.graph --ram lots": "a size must be a number of bytes",
    "mate startpos --within 0": "at least 1, not 0",
    "mate startpos --within 125": "moves must be from 1 to 124",
    "mate startpos --visits 0": "visits",
    "mate startpos --seconds 0": "--seconds",
    "mate '8/8/8/8/8/8/8/K7 w - - 0 1'": "king",
    "reevaluate hand.graph": "--evaluator",
    "reevaluate hand.graph --evaluator nobody": "unknown evaluator",
    "reevaluate hand.graph --evaluator uniform --evaluator-option CPuct=2": "has no option CPuct",
    "reevaluate hand.graph --evaluator uniform --ram 10B": "at least 8MB",
    "repertoire add hand.graph '1. e4'": "Missing option '--side'",
    "repertoire add hand.graph '1. e4' --side both": "--side must be white or black here",
    "repertoire add hand.graph '1. e4' --side red": "--side must be white, black or both",
    "repertoire add hand.graph '1. e5' --side white": "illegal",
    "repertoire add hand.graph --side white": "name a line",
    "repertoire remove hand.graph --side white": "name a line",
    "repertoire import hand.graph gone.pgn --side white": "gone.pgn",
    "repertoire export hand.graph --side black": "is empty",
    "review games.pgn --store new.graph --player C": "none of the 2 games",
    "review games.pgn --store new.graph --side white": "name the player",
    "review games.pgn --store new.graph --since May": "a date is 2024",
    "review games.pgn --store new.graph --since 2023-02-29": "a date is 2024",
    "review games.pgn --store new.graph -o - --json": "stdout",
    "review games.pgn --store new.graph --visits 9": "10",
    "show startpos": "name a graph file",
    "show nothing --store x.graph": "no file 'nothing'",
    "store info": "name a graph file",
    "store compact hand.graph --min-visits 0": "visits",
    "store compact hand.graph --min-visits few": "--min-visits",
    "store merge hand.graph bare.graph": "-o",
    "store merge hand.graph bare.graph -o c.graph --into hand.graph": "--into",
    "store merge hand.graph bare.graph --keep other -o c.graph": "other",
    "study import hand.graph no.pgn": "no.pgn",
    "study export hand.graph nobody": "nobody",
    "study rename hand.graph a b": "'a'",
    "watch new.graph": "name positions: ",
    "watch new.graph '1. e4' --share 1 --share 2": "--share is given 2 times",
    "watch new.graph '1. e4' --share 0": "above 0",
    "watch new.graph '1. e5'": "is illegal in",
}
FAILED = {  # exit code 1
    **{f"{name} '{UNKNOWN}' --store hand.graph": UNKNOWN for name in ("games", "lines", "tree")},
    "export --format polyglot --store hand.graph -o x --weights games": "import",
    "export --format polyglot --store hand.graph -o x --weights imported": "graphsearch import",
    "lab refresh hand.graph --ram 100B": "more than the 0.00 MB allowed; allow more",
    "store merge . -o new.graph": "is a folder",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph with a book and a repertoire, one with neither, games and a set."""
    folder = tmp_path_factory.mktemp("wrong")
    for name in ("hand.graph", "bare.graph"):
        graph_file(folder / name, LINES)
    small_book().write(folder / "hand.graph")
    main = importlib.import_module("graphsearch.cli").main
    assert main(["repertoire", "add", str(folder / "hand.graph"), "1. e4 e5 2. Nf3", "--side", "white"]) == 0
    texts = {"games.pgn": GAMES, "text.pgn": "hello\n", "set.epd": "4k3/8/8/8/8/8/4P3/4K3 w - -\n"}
    texts |= {"white.toml": TOML, "green.toml": TOML.replace("white", "green")}
    for name, text in texts.items():
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize("line", [*WRONG, *FAILED])
def test_wrong_use_is_one_line(cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    monkeypatch.chdir(folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert_refused(cli(*shlex.split(line)), 1 if line in FAILED else 2, (WRONG | FAILED)[line])
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
