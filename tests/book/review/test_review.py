"""Reviews of games and searches of sets: what is searched, said and written, and what a second run does."""

from __future__ import annotations

import io
import operator
import os
import signal
import threading
from pathlib import Path
from typing import Any

import chess
import chess.pgn
import pytest

from graphsearch.base.errors import ExportError
from graphsearch.book.review import review, sessions
from graphsearch.evaluators.factory import EvaluatorSpec
from graphsearch.exchange.epd_import import read_epd
from graphsearch.exchange.importing import GivenFile
from graphsearch.exchange.imports import import_files
from graphsearch.graph.view import show
from graphsearch.position.values import cp_of
from graphsearch.search.params import Limits
from graphsearch.store.info import info
from graphsearch.store.verify import verify

from ...conftest import Cli, present
from ...support.forks import Command
from ...support.reference import HashEvaluator

VISITS = 12
NOTED = """[Event "T\u00f6rn \\"A\\" <b>"]
[Date "2024.05.17"]
[White "Anders\u00e9n, Adolf"]
[Black "<script>alert(1)</script>"]
[Result "1-0"]
[Annotator "A. Human"]

{first} 1. e4! {best by test [%clk 0:01:00]} e5 (1... c5 {Sicilian} 2. Nf3 (2. c3 d5) 2... d6) 2. Qh5 $14 Nc6
; a line
3. Bc4 Nf6?? (3... g6 4. -- d6) 4. Qxf7# 1-0
"""
SHORT = """[White "B"]
[Black "Anders\u00e9n, Adolf"]
[Date "2023.??.??"]
[Result "*"]

1. e4 e5 2. Nf3 Nc6 *
"""
GAMES = NOTED + "\n" + SHORT
SETUP = (
    '[SetUp "1"]\n[FEN "4k3/8/8/8/8/8/4P3/4K2R b K - 0 1"]\n[Result "1/2-1/2"]\n\n'
    "1... Kd7 2. O-O Kc6 1/2-1/2\n"
)
SHUFFLE = "1. Nf3 Nf6 2. Ng1 Ng8 3. Nf3 Nf6 4. Ng1 Ng8 5. Nf3 Nf6 6. e4 e5 *\n"


class Reviewer:
    """Reviews texts in one graph file, and keeps what it is told."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = folder / "a.graph"
        self.evaluator: Any = HashEvaluator()
        self.games: list[review.GameReview] = []
        self.pgn = io.BytesIO()

    def __call__(self, text: str, *, visits: int = VISITS, **more: Any) -> review.ReviewReport:
        self.games, self.pgn = [], io.BytesIO()
        options = {name: more.pop(name) for name in ("stop", "on_progress") if name in more}
        settings = review.ReviewSettings(limits=Limits(visits=visits), **{"pgn": self.pgn, **more})
        return review.review(
            self.store,
            GivenFile("games.pgn", io.BytesIO(text.encode())),
            settings,
            evaluator=self.evaluator,
            on_game=self.games.append,
            **options,
        )

    def written(self) -> list[chess.pgn.Game]:
        stream, found = io.StringIO(self.pgn.getvalue().decode()), []
        while game := chess.pgn.read_game(stream):
            assert not game.errors
            found.append(game)
        return found


@pytest.fixture
def reviewer(tmp_path: Path) -> Reviewer:
    return Reviewer(tmp_path)


# ------------------------------------------------------------------ what is searched
def test_every_position_has_its_visits_and_none_is_evaluated_twice(reviewer: Reviewer) -> None:
    report = reviewer(GAMES)
    assert (report.reviewed, report.skipped, report.known) == (2, 0, 4)  # mate; start, e4, e5
    asked = reviewer.evaluator.asked
    assert len(asked) == len(set(asked)) == report.evaluations
    for game in reviewer.games:
        for move in game.moves:
            node = present(show(reviewer.store, chess.Board(move.position)))
            assert node.visits >= VISITS or node.bounds[0] == node.bounds[1]


# ------------------------------------------------------------------ what is said of moves
def q_of(path: Path, board: chess.Board) -> float:
    """Returns Q for the side to move, by the rules or the file."""
    if board.is_checkmate():
        return -1.0
    if board.is_stalemate() or board.is_insufficient_material() or board.is_repetition(3):
        return 0.0
    return present(show(path, board)).q


def expected_losses(path: Path, game: review.GameReview) -> list[tuple[float, int]]:
    """Returns what every move loses, of Q and in centipawns, from the records alone."""
    board, found = chess.Board(game.start), []
    for move in game.moves:
        played = chess.Move.from_uci(move.move)
        best = present(show(path, board)).moves[0]
        behind = board.copy()
        behind.push(best.move)
        record = show(path, behind)
        q = -record.q if record and record.visits >= best.n else present(best.q)
        board.push(played)
        mine = q_of(path, board)
        loss = 0.0 if played == best.move else max(0.0, q + mine)
        cut = [max(-1000, min(1000, cp)) for cp in (cp_of(q), cp_of(-mine))]
        found.append((loss, max(0, cut[0] - cut[1]) if loss else 0))
    return found


def test_losses_marks_and_accuracies_are_those_of_the_formulas(reviewer: Reviewer) -> None:
    reviewer("1. e4 e5 2. Qh5 Nc6 3. Bc4 Nf6 4. Qxf7# 1-0\n")
    (game,) = reviewer.games
    losses = expected_losses(reviewer.store, game)
    assert [(move.loss, move.loss_cp) for move in game.moves] == losses
    for move, (loss, _) in zip(game.moves, losses, strict=True):
        mark = "??" if loss >= 0.3 else "?" if loss >= 0.2 else "?!" if loss >= 0.1 else ""
        assert move.glyph == mark or (move.glyph == "!" and not loss)
    assert any(move.glyph == "??" for move in game.moves)
    shares = review.weights(
        [review.win_percent(q) for q in (game.value.q, *(move.value.q for move in game.moves))]
    )
    for white in (True, False):
        figures, first = game.of(white), 0 if white else 1
        own, w = losses[first::2], shares[first::2]
        a = [review.move_accuracy(loss) for loss, _ in own]
        mean = sum(map(operator.mul, a, w)) / sum(w)
        harmonic = len(a) / sum(1 / max(1.0, each) for each in a)
        assert figures.accuracy == pytest.approx((mean + harmonic) / 2)
        assert figures.mean_loss == pytest.approx(sum(50 * loss for loss, _ in own) / len(own))
        assert figures.mean_loss_cp == pytest.approx(sum(cp for _, cp in own) / len(own))


def test_values_are_those_of_the_positions_after_the_moves_seen_by_white(reviewer: Reviewer) -> None:
    reviewer(SETUP)
    (game,) = reviewer.games
    board = chess.Board(game.start)
    for move in game.moves:
        board.push_uci(move.move)
        node = present(show(reviewer.store, board))
        assert move.value.q == pytest.approx(node.q if board.turn else -node.q)
    assert [move.white for move in game.moves] == [False, True, False]
    assert {move.phase for move in game.moves} == {"endgame"}
    assert board.piece_at(chess.F1) == chess.Piece.from_symbol("R")
    assert reviewer(SETUP).evaluations == 0


def test_a_third_repetition_is_worth_a_draw_and_a_way_to_one_too(reviewer: Reviewer) -> None:
    reviewer(SHUFFLE)
    (game,) = reviewer.games
    third = game.moves[7]  # 4... Ng8: the start position for the third time
    assert (third.value.q, third.san) == (0.0, "Ng8")
    assert third.best_value.q <= 0  # for Black, who could have had a draw
    assert third.loss == pytest.approx(-third.best_value.q)
    fifth = game.moves[8]  # 5. Nf3: the position after 1. Nf3 for the third time
    assert fifth.value.q == 0.0
    assert fifth.loss == pytest.approx(max(0.0, fifth.best_value.q))
    assert reviewer(SHUFFLE).evaluations == 0


# ------------------------------------------------------------------ what is written
def test_the_written_game_has_the_mainline_and_the_notes_of_its_source(reviewer: Reviewer) -> None:
    reviewer(NOTED)
    (game,) = reviewer.written()
    assert [move.uci() for move in game.mainline_moves()] == [move.move for move in reviewer.games[0].moves]
    source = present(chess.pgn.read_game(io.StringIO(NOTED)))
    assert {name: game.headers[name] for name in source.headers if name != "Annotator"} == {
        name: value for name, value in source.headers.items() if name != "Annotator"
    }
    assert game.headers["Annotator"].startswith("A. Human; graphsearch ")
    assert game.comment == "first"
    for mine, theirs in zip(game.mainline(), source.mainline(), strict=True):
        assert theirs.nags <= mine.nags
        assert set(theirs.comment.split()) <= set(mine.comment.split())
        known = [side.move for side in theirs.variations[1:]]
        assert known == [side.move for side in mine.variations[1 : 1 + len(known)]]
    sicilian = game.variations[0].variations[1]
    assert (sicilian.comment.split()[0], len(sicilian.variations)) == ("Sicilian", 2)
    assert game.end().eval() is None  # a mate on the board
    for node, move in zip(game.mainline(), reviewer.games[0].moves, strict=True):
        said = node.eval()
        if said is not None and move.value.mate is None:
            assert said.white().score() == move.value.cp
        if move.glyph in ("?", "??", "?!"):
            assert any(side.move.uci() == move.best for side in node.parent.variations)


def test_mates_are_counted_after_the_move_for_the_played_and_the_best_one_alike(reviewer: Reviewer) -> None:
    """As in `[%eval]`: a move that mates has 0, and needs none in PGN."""
    reviewer('[FEN "7k/8/5K2/6Q1/8/8/8/8 w - - 0 1"]\n\n1. Qg4 Kh7 2. Qg6+ Kh8 3. Qg7# 1-0\n', visits=200)
    (game,) = reviewer.games
    mates = [(move.value.mate, move.best_value.mate) for move in game.moves]
    assert mates == [(1, 0), (1, 1), (1, 0), (1, 1), (0, 0)]
    reviewer('[FEN "7k/5K2/8/6Q1/8/8/8/8 w - - 0 1"]\n\n1. Qg6 1/2-1/2\n', visits=200)
    (written,) = reviewer.written()
    better = written.variations[1]
    assert (better.board().is_checkmate(), better.eval()) == (True, None)


def test_the_first_move_that_no_imported_game_played_is_the_novelty(reviewer: Reviewer) -> None:
    games = "\n".join("1. e4 e5 2. Nf3 Nc6 3. Bb5 1-0\n" for _ in range(3))
    given = "1. e4 e5 2. Nf3 Nf6 3. Bb5 *\n"
    for text in (games, given):  # the reviewed game was imported too
        import_files("pgn", reviewer.store, [GivenFile("a.pgn", io.BytesIO(text.encode()))])
    reviewer(given)
    (game,) = reviewer.games
    assert [(move.san, move.novelty) for move in game.moves if move.novelty is not None] == [("Nf6", 3)]
    (written,) = reviewer.written()
    node = list(written.mainline())[3]
    assert chess.pgn.NAG_NOVELTY in node.nags
    assert node.comment.endswith("N, after 3 games")


# ------------------------------------------------------------------ what survives
def test_a_stopped_review_writes_nothing_and_the_same_command_resumes(
    reviewer: Reviewer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graphsearch.book.review.review.SAY_SECONDS", 0.0)
    stop = threading.Event()
    out = reviewer.folder / "a.pgn"
    out.write_text("before")

    def after_a_while(now: Any) -> None:
        if now.count > 3 * VISITS:
            stop.set()

    report = reviewer(NOTED, pgn=out, stop=stop, on_progress=after_a_while)
    assert report.stopped
    assert (report.reviewed, out.read_text()) == (0, "before")
    asked = len(reviewer.evaluator.asked)
    again = reviewer(NOTED, pgn=out)
    assert again.reviewed == 1
    assert again.evaluations == len(reviewer.evaluator.asked) - asked
    assert len(reviewer.evaluator.asked) == len(set(reviewer.evaluator.asked))
    assert out.read_text().startswith("[")


def test_a_killed_review_leaves_a_sound_file_that_goes_on(
    tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, games = tmp_path / "a.graph", tmp_path / "games.pgn"
    games.write_text(NOTED)
    words = ["review", str(games), "--store", str(store), "--visits", "100", "-o", str(tmp_path / "out.pgn")]
    count, left = sessions.Session._check, iter((0, 0, 1))

    def count_and_end(session: Any, *words: Any) -> None:
        count(session, *words)  # and saves soon
        if next(left):
            session._graph.settle(wait=True)
            os.kill(os.getpid(), signal.SIGKILL)

    with monkeypatch.context() as patch:
        patch.setattr(sessions, "SAVE_SECONDS", 0.0)
        patch.setattr(sessions.Session, "_check", count_and_end)
        with Command(*words) as command:
            assert command.end().code == -signal.SIGKILL
    assert verify(store).ok
    saved = info(store).nodes
    assert saved
    again = cli(*words, "--json")
    assert again.code == 0, again.err
    assert 0 < again.json["evaluations"] <= info(store).nodes - saved
    assert cli(*words, "--json").json["evaluations"] == 0


def test_workers_review_every_position_and_the_same_command_again_evaluates_nothing(
    reviewer: Reviewer,
) -> None:
    reviewer.evaluator = EvaluatorSpec(evaluator="uniform")
    first, games = reviewer(GAMES, workers=2), reviewer.games
    assert (first.reviewed, len(games), first.stopped) == (2, 2, False)
    assert first.searched + first.known == 8 + 5
    assert all(move.n >= VISITS for game in games for move in game.moves[:-1])
    again = reviewer(GAMES, workers=2)
    assert (again.searched, again.evaluations) == (0, 0)
    assert reviewer.games == games
    assert verify(reviewer.store).ok


# ------------------------------------------------------------------ what is chosen and left out
def test_games_are_chosen_by_player_colour_date_and_number(reviewer: Reviewer) -> None:
    for choice, numbers in (
        (review.GameChoice(player="ANDERS\u00c9N"), [1, 2]),
        (review.GameChoice(player="adolf anders\u00e9n", color="black"), [2]),
        (review.GameChoice(since="2024"), [1]),
        (review.GameChoice(since="2023-12-31"), [1, 2]),  # a day of 2023, which one is unknown
        (review.GameChoice(games=frozenset({3})), [3]),
    ):
        reviewer("\n".join((NOTED, SHORT, SETUP)), choice=choice, visits=10)
        assert [game.number for game in reviewer.games] == numbers


# ------------------------------------------------------------------ odd games
@pytest.mark.parametrize(
    ("fen", "moves"),
    [
        ("8/8/8/4k3/8/8/4p3/4K3 w - - 0 1", "1. Kxe2 Ke4 2. Kd2 Kd4"),  # it goes on with kings alone
        ("8/8/3k4/8/8/8/4R3/4K3 w - - 97 90", "1. Re3 Kd7 2. Re2 Kd6 3. Re3 Kd7"),  # and after fifty moves
        ("7k/8/5KQ1/8/8/8/8/8 w - - 0 1", "1. Qf7"),  # stalemate
        ("7k/8/5KQ1/8/8/8/8/8 w - - 0 1", ""),
    ],
)
def test_games_are_judged_to_whatever_end_they_come(reviewer: Reviewer, fen: str, moves: str) -> None:
    text = f'[SetUp "1"]\n[FEN "{fen}"]\n\n{moves} *\n'
    reviewer(text)
    (game,) = reviewer.games
    assert len(game.moves) == len([word for word in moves.split() if word[0].isalpha()])
    if moves:
        assert game.moves[-1].value.q == 0.0
    assert reviewer(text).evaluations == 0
    assert len(list(reviewer.written()[0].mainline_moves())) == len(game.moves)


# ------------------------------------------------------------------ sets of positions
SET = """# mates and others
6k1/5ppp/8/8/8/8/5PPP/3R2K1 w - - bm Rd8#; id "mate";
6k1/5ppp/8/8/8/8/5PPP/3R2K1 w - - am Rd8#; id "not the mate";
rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - c0 "e4=10, d4=9, a3=1"; id "points";
nonsense
7k/8/8/8/8/8/8/K7 w - - bm Zz9;
7k/6Q1/6K1/8/8/8/8/8 b - - id "over";
"""


class Searcher:
    """Searches the set in one graph file."""

    def __init__(self, folder: Path) -> None:
        self.store, self.output = folder / "a.graph", folder / "out.epd"
        self.evaluator: Any = HashEvaluator()
        self.rows: list[sessions.SetRow] = []

    def __call__(self, limits: Limits, *, workers: int | None = None, at: int | None = None) -> int:
        """Searches; `at`: sets the stop after so many rows. Returns the evaluations."""
        self.rows, stop = [], threading.Event()
        lines, _ = sessions.read_lines(io.BytesIO(SET.encode()), "a.epd")

        def keep(row: sessions.SetRow) -> None:
            self.rows.append(row)
            if len(self.rows) == at:
                stop.set()

        settings = sessions.SetSettings(limits=limits, output=self.output, workers=workers)
        self.report = sessions.search_set(
            self.store, lines, settings, evaluator=self.evaluator, stop=stop, on_row=keep
        )
        return self.report.evaluations


@pytest.fixture
def searcher(tmp_path: Path) -> Searcher:
    return Searcher(tmp_path)


def test_solved_counts_and_points_are_those_of_the_best_moves(searcher: Searcher) -> None:
    searcher(Limits(visits=200))
    mate, avoided, points = searcher.rows
    assert (mate.best, mate.node.mate, mate.solved) == ("d1d8", 1, True)
    assert (avoided.best, avoided.solved) == ("d1d8", False)
    assert (points.solved, points.most_points) == (None, 10)
    assert points.points == {"e2e4": 10, "d2d4": 9, "a2a3": 1}.get(points.best or "", 0)
    assert (searcher.report.solved, searcher.report.judged) == (1, 2)
    for row in searcher.rows:
        assert (row.solved_evaluations is None) == (not row.solved)
        if row.solved_evaluations is not None and row.solved_seconds is not None:
            assert 0 <= row.solved_evaluations <= row.evaluations
            assert row.solved_seconds <= row.seconds


@pytest.mark.parametrize(
    "limits", [Limits(visits=100), Limits(evaluations=50), Limits(visits=10**6, seconds=0.05)]
)
def test_a_search_again_evaluates_nothing_and_finds_the_same(searcher: Searcher, limits: Limits) -> None:
    assert searcher(limits)
    rows, text = searcher.rows, searcher.output.read_text()
    assert searcher(limits) == 0
    same = {"known": False}
    assert [row.as_dict() | same for row in searcher.rows] == [row.as_dict() | same for row in rows]
    assert searcher.output.read_text() == text
    assert searcher.report.known == 3


def test_a_stopped_set_resumes_with_the_position_that_it_left(searcher: Searcher) -> None:
    searcher(Limits(visits=100), at=1)
    assert (searcher.report.stopped, len(searcher.rows)) == (True, 1)
    assert not searcher.output.exists()
    searcher(Limits(visits=100))
    assert (searcher.report.stopped, searcher.rows[0].known) == (False, True)
    asked = searcher.evaluator.asked
    assert len(asked) == len(set(asked))


def test_the_written_lines_keep_their_operations_and_have_the_results(searcher: Searcher) -> None:
    searcher(Limits(visits=100))
    first, _, third = searcher.output.read_text().splitlines()
    found = read_epd(first).operations
    assert (found["id"], found["bm"], found["dm"], found["ce"]) == ("mate", ["d1d8"], 1, 32766)
    assert found["pv"] == ["d1d8"]
    assert chess.Board().set_epd(third)["acn"] == searcher.rows[2].node.visits  # python-chess reads it, too
    searcher.output = searcher.store
    with pytest.raises(ExportError):
        searcher(Limits(visits=100))


def test_workers_search_a_set_and_rows_come_in_its_order(searcher: Searcher) -> None:
    searcher.evaluator = EvaluatorSpec(evaluator="uniform")
    searcher(Limits(visits=50), workers=2)
    report, numbers = searcher.report, [row.source.number for row in searcher.rows]
    assert (report.done, report.solved, report.stopped) == (3, 1, False)
    assert numbers == sorted(numbers)
    assert searcher.rows[2].node.visits >= 50
