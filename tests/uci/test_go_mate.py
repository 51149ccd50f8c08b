"""`go mate N`: a proven mate is the answer, or the search says that there is none and plays on."""

from __future__ import annotations

import chess

from tests.uci.engines import Played, best_of

TWO = "position fen kbK5/pp6/1P6/8/8/8/8/R7 w - - 0 1"


def test_a_mate_within_the_moves_is_proven_and_played() -> None:
    with Played() as game:
        lines = game.ready().ask(TWO, "go mate 3", until="bestmove")
        assert " score mate 2 " in lines[-2]
        assert lines[-2].partition(" pv ")[2].split()[0] == "a1a6" == best_of(lines)
        lines = game.ask(TWO + " moves a1a6", "go mate 3", until="bestmove")
        assert " score mate -1 " in lines[-2]
        late = "position fen 7k/8/6K1/8/8/8/8/R7 w - - 100 90"
        for go in ("go mate 1", "go nodes 20"):
            lines = game.ask(late, go, until="bestmove")
            assert " score mate 1 " in lines[-2]


def test_where_no_mate_is_that_short_or_moves_are_listed_the_graph_is_searched() -> None:
    with Played() as game:
        lines = game.ready().ask(TWO, "go mate 1", until="bestmove")
        assert any("no mate in up to 1" in line for line in lines)
        board = chess.Board(TWO.removeprefix("position fen "))
        assert board.is_legal(chess.Move.from_uci(best_of(lines)))
        assert best_of(game.ask(TWO, "go mate 2 searchmoves a1a2", until="bestmove")) == "a1a2"


def test_a_search_for_mate_obeys_stop_and_the_clock() -> None:
    with Played() as game:
        assert best_of(game.ready().ask("position startpos", "go mate 12 movetime 300", until="bestmove"))
        game.ask("go mate 12", "stop", until="bestmove")


def test_every_search_plays_the_shortest_mate_and_the_longest_defence() -> None:
    with Played() as game:
        game.ready()
        for go in ("go nodes 400", "go wtime 3600000 btime 3600000", "go infinite"):
            if go == "go infinite":
                game.ask(TWO, go, until="info depth")
            lines = game.ask(*(["stop"] if go == "go infinite" else [TWO, go]), until="bestmove")
            assert " score mate 2 " in lines[-2]
            assert lines[-2].partition(" pv ")[2].split()[0] == "a1a6" == best_of(lines)
            assert len(lines[-2].partition(" pv ")[2].split()) == 3
        lines = game.ask(TWO + " moves a1a6", "go nodes 400", until="bestmove")
        assert " score mate -1 " in lines[-2]
