"""Novelties and preparation against an oracle of python-chess and dicts, on small random games and graphs."""

from __future__ import annotations

import random
import shutil
from collections import Counter, defaultdict
from copy import copy
from functools import cache
from pathlib import Path
from statistics import fmean
from types import SimpleNamespace
from typing import Any

import chess
import chess.pgn
import pytest

from graphsearch.base.errors import CorruptRecordError, InvalidParameterError
from graphsearch.exchange.importing import GivenFile
from graphsearch.exchange.imports import import_files
from graphsearch.position.values import cp_of
from graphsearch.query.novelties import NotableMove, Rules, novelties
from graphsearch.query.prepare import Departure, prepare
from graphsearch.query.prepare import _sides as sides_of

from ..conftest import Cli, sql
from ..exchange.exported import add_book
from ..support.positions import after_line
from .handmade import graph_file

PLIES, WIDTH, GAMES = 6, 3, 150
RESULTS = {"1-0": 1.0, "0-1": 0.0, "1/2-1/2": 0.5}
NAMES = ("Ann", "Bob", "Cid")


class Made:
    """A graph file with games of three players, and what an oracle needs of both.

    Attributes:
      games: white, black, result, SAN moves. nodes: moves of the graph by EPD: SAN -> (n, q).
    """

    def __init__(self, folder: Path) -> None:
        rng = random.Random(3)
        self.games = [self._game(rng) for _ in range(GAMES)]
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
        import_files("pgn", self.path, [GivenFile(str(text))], players=True)
        self.nodes = {after_line(line).epd(): edges for line, edges in self.lines.items()}

    @staticmethod
    def _game(rng: random.Random) -> tuple[str, str, str, list[str]]:
        board, sans = chess.Board(), []
        for _ in range(rng.randint(2, PLIES)):
            moves = sorted(board.legal_moves, key=lambda move: (move.to_square * 7 + move.from_square) % 31)
            sans.append(board.san(moves[min(WIDTH - 1, int(rng.expovariate(1.0)))]))
            board.push_san(sans[-1])
        white, black = rng.sample(NAMES, 2)
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
def passed(made: Made) -> dict[str, Counter[str]]:
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
    counts = passed(made)
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
    import_files("pgn", path, [GivenFile(str(text))])
    for least in (2, 3):
        found = novelties(path, chess.Board(), rules=Rules(min_games=least, cp=15))
        assert [(move.step.san, move.here.games) for move in found.novelties] == [("Bg2", 3), ("c4", 3)], (
            least
        )
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
    answer = cli("prepare", "--player", "ann", "--book", "white", "--store", made.path, "--json")
    assert [move["games"] for move in answer.json["moves"]] == [move.games for move in found.moves[:30]]
