"""Evaluators by name and options: alone, as policy and value, and behind tables, whose answers are exact."""

from __future__ import annotations

import itertools
import math
import shutil
import threading
from collections.abc import Iterator
from contextlib import chdir, closing, nullcontext
from pathlib import Path
from random import Random
from typing import Any

import chess
import chess.syzygy
import numpy as np
import pytest

from graphsearch import Graph, Limits, SearchParams, analyze, show
from graphsearch.base.errors import EvaluatorError, InvalidParameterError, UnknownEvaluatorError
from graphsearch.evaluators import assess as module
from graphsearch.evaluators.builtin.evaluator import BuiltinEvaluator
from graphsearch.evaluators.factory import CombinedEvaluator, EvaluatorSpec, create, parse_options
from graphsearch.evaluators.pool import PooledEvaluator
from graphsearch.evaluators.protocol import Evaluation, Evaluator, PositionBatch, checked
from graphsearch.evaluators.tablebase import Syzygy, TablebaseEvaluator
from graphsearch.evaluators.uniform import UniformEvaluator
from graphsearch.position.board import fen_of, legal_moves, terminal_kind, unpack
from graphsearch.search.params import GATHERERS
from graphsearch.store.provenance import EvaluatorIdentity

from ..conftest import Cli, present, shared_data
from ..support.engines import fake_engine
from ..support.evaluators import TableEntry, TableEvaluator
from ..support.positions import placed, random_words
from ..support.reference import HashEvaluator

BATCH = PositionBatch.from_boards([chess.Board(), chess.Board("4k3/8/8/8/8/8/4P3/4K3 w - - 0 1")])


# ----------------------------------------------------------------------- names and options
@pytest.mark.parametrize("name", ["", "nothing", "builtin:x", "uniform:", "lc0", "lc0:", ":x", "Builtin"])
def test_an_unknown_name_lists_those_that_there_are(name: str) -> None:
    known = r"known are builtin, uniform, nnue:FILE\|PROGRAM, lc0:FILE"
    with pytest.raises(UnknownEvaluatorError, match=known):
        create(name)


@pytest.mark.parametrize(
    ("name", "option", "told"),
    [
        ("builtin", "Temp=1", "builtin has no option Temp; it has PolicyTemperature, threads"),
        ("uniform", "PolicyTemperature=1", "uniform has no option PolicyTemperature"),
        *(
            ("builtin", f"workers={value}", "workers must be a whole number from 1")
            for value in ("0", "-1", "x", "", "1.5", "99999")
        ),
        *(("lc0:net", text, text.partition("=")[0]) for text in ("threads=-1", "PolicyTemperature=0")),
        *(("builtin", text, "NAME=VALUE") for text in ("nodes", "=5", "")),
    ],
)
def test_a_wrong_option_is_refused_with_those_that_there_are(name: str, option: str, told: str) -> None:
    with pytest.raises(InvalidParameterError, match=told):
        create(name, dict(parse_options([option])))


# ----------------------------------------------------------------------- a class in a file
def test_the_value_of_a_single_position_is_repeated_for_its_moves() -> None:
    assert PositionBatch.from_boards([chess.Board()]).by_move(np.array([0.5])).tolist() == [0.5] * 20


MINE = """
from __future__ import annotations
from dataclasses import dataclass

import numpy as np
from beside import Q

from graphsearch.evaluators.protocol import Evaluation, Evaluator
from graphsearch.store.provenance import EvaluatorIdentity


@dataclass
class Settings:
    q: Q


class Mine(Evaluator):
    def __init__(self, q="0"):
        self.settings = Settings(float(q))
        self.identity = EvaluatorIdentity("mine", options={"q": self.settings.q})

    def evaluate(self, batch):
        print("asked", 1 / self.settings.q, q := self.settings.q)
        wdl = np.tile([(1 + q) / 2, 0, (1 - q) / 2], (len(batch), 1))
        lengths = np.diff(batch.offsets)
        return Evaluation(wdl, np.repeat(1 / lengths, lengths))


Wrong = object


class Broken(Mine):
    def __init__(self):
        raise ValueError("no\\n  weights")
"""


def test_a_class_of_a_python_file_is_an_evaluator(tmp_path: Path, cli: Any) -> None:
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    (tmp_path / "beside.py").write_text("Q = float")
    (tmp_path / "exit.py").write_text("raise SystemExit('no licence')")
    made = create(f"{path}:Mine", {"q": "0.5"})
    assert made.evaluate(BATCH).wdl.tolist() == [[0.75, 0, 0.25]] * 2
    assert (made.identity.kind, made.identity.options) == ("mine", {"q": 0.5})
    with closing(create(f"{path}:Mine", {"q": "0.5", "workers": "2"})) as pool:
        assert pool.identity == made.identity
        np.testing.assert_array_equal(pool.evaluate(BATCH).wdl, made.evaluate(BATCH).wdl)
    for name, told in {
        f"{tmp_path}/none.py:Mine": "there is no file",
        f"{path}:Other": "has no class Other",
        f"{path}:Settings": "cannot be made: TypeError",
        f"{path}:Wrong": "does not have all of them",
        f"{tmp_path}/exit.py:Mine": "cannot be made: SystemExit: no licence",
        f"{path}:Broken": "cannot be made: ValueError: no weights",
    }.items():
        with pytest.raises((EvaluatorError, InvalidParameterError), match=told):
            create(name)
    cli("evaluate", "startpos", "--evaluator", f"{path}:Mine").ends(1, "evaluator failed: ZeroDivisionError")
    words = ("analyze", "startpos", "--visits", "20", "--store", tmp_path / "a.graph")
    (tmp_path / "a.epd").write_text(chess.STARTING_FEN)
    with chdir(tmp_path):  # with workers, of which each makes its own
        mine = ("--evaluator", "mine.py:Mine", "--evaluator-option", "q=0.1", "--workers", 2)
        cli("analyze", "a.epd", *words[2:], *mine).ends(0)
    assert cli(*words, "--json").ends(0, f"with its own evaluator, {path}:Mine", "asked 10.0 0.1").json["q"]


def test_a_program_with_arguments_is_remembered_by_its_whole_path(cli: Any, tmp_path: Path) -> None:
    engine = fake_engine(tmp_path)
    words = ("analyze", "startpos", "--visits", "3", "--store", tmp_path / "a.graph")
    with chdir(tmp_path):
        cli(*words, "--evaluator", f"uci:./{engine.name} -x").ends(0)
    cli(*words).ends(0, f"is searched with its own evaluator, uci:{engine} -x")


# ----------------------------------------------------------------------- policy and value
@pytest.mark.parametrize("options", [(), (("workers", "2"),)])
def test_priors_come_from_one_and_values_from_the_other(options: tuple[tuple[str, str], ...]) -> None:
    known = {"builtin": BuiltinEvaluator().evaluate(BATCH), "uniform": UniformEvaluator().evaluate(BATCH)}
    for policy, value in (("uniform", "builtin"), ("builtin", "uniform")):
        with closing(create(EvaluatorSpec(policy=policy, value=value, options=options))) as made:
            assert isinstance(made, PooledEvaluator if options else CombinedEvaluator)
            assert made.identity == create(EvaluatorSpec(policy=policy, value=value)).identity
            assert made.identity.options["policy.kind"] == policy
            assert made.identity.options["value.kind"] == value
            answer = made.evaluate(BATCH)
        np.testing.assert_array_equal(answer.wdl, known[value].wdl)
        np.testing.assert_array_equal(answer.priors, known[policy].priors)


def combined(**given: Any) -> CombinedEvaluator:
    made = create(EvaluatorSpec(**given))
    assert isinstance(made, CombinedEvaluator)
    return made


def test_the_part_that_is_not_given_is_the_evaluator() -> None:
    for given in (
        {"policy": "uniform"},
        {"policy": "uniform", "evaluator": "builtin"},
        {"evaluator": "uniform", "value": "builtin"},
    ):
        made = combined(**given)
        assert isinstance(made.policy, UniformEvaluator)
        assert isinstance(made.value, BuiltinEvaluator)


@pytest.mark.parametrize(
    ("value", "option", "temperatures"),
    [
        ("uniform", "policytemperature", (2.0, 1.0)),
        ("builtin", "policy.policytemperature", (2.0, 1.0)),
        ("builtin", "PolicyTemperature", (2.0, 1.0)),  # of no effect on a value
    ],
)
def test_an_option_goes_to_the_part_that_has_it(
    value: str, option: str, temperatures: tuple[float, float]
) -> None:
    made = combined(policy="builtin", value=value, options=((option, "2"),))
    assert (made.policy.temperature, made.value.temperature) == temperatures


BOTH = {"policy": "uniform", "value": "builtin"}


@pytest.mark.parametrize(
    ("given", "options", "told"),
    [
        (BOTH | {"evaluator": "builtin"}, "", "not all three"),
        (BOTH, "policy.PolicyTemperature", r"the policy part of .* no option .*; it has threads$"),
        (BOTH, "value.x", r"uniform \+ builtin has no option x"),
        (BOTH | {"policy": "builtin"}, "threads", r"write policy\.threads or value\.threads"),
        ({"evaluator": "builtin"}, "policy.PolicyTemperature", "there is no policy part"),
        ({"pool": "local"}, "workers Workers", "workers is given twice"),
        ({"pool": "local"}, "nodes", "no option nodes"),
    ],
)
def test_what_does_not_fit_two_parts_is_refused(given: dict[str, str], options: str, told: str) -> None:
    with pytest.raises(InvalidParameterError, match=told):
        create(EvaluatorSpec(**given, options=tuple((name, "2") for name in options.split())))


class Meeting(Evaluator):
    """An evaluator that answers only when another is asked at the same time."""

    identity = UniformEvaluator.identity

    def __init__(self, barrier: threading.Barrier, error: str = "") -> None:
        self.barrier = barrier
        self.error = error
        self.closed = False

    def evaluate(self, batch: PositionBatch) -> Evaluation:
        self.barrier.wait(60)
        if self.error:
            raise EvaluatorError(self.error)
        return UniformEvaluator().evaluate(batch)

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize("failing", [None, 0, 1])
def test_both_are_asked_at_the_same_time_and_closed_and_either_may_fail(failing: int | None) -> None:
    barrier = threading.Barrier(2)
    parts = [Meeting(barrier, "it broke" if i == failing else "") for i in range(2)]
    both = CombinedEvaluator(*parts)
    for _ in range(2):
        with nullcontext() if failing is None else pytest.raises(EvaluatorError, match="it broke"):
            both.evaluate(BATCH)
    both.close()
    assert all(part.closed for part in parts)


def test_a_graph_closes_the_evaluator_that_it_made_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = Meeting(threading.Barrier(1))
    Graph.open(None, evaluator=mine).close()
    assert not mine.closed
    monkeypatch.setattr("graphsearch.graph.graph.create", lambda which: mine)
    Graph.open(None, evaluator="uniform").close()
    assert mine.closed


class Nameless:
    batch_size = 1

    def evaluate(self, batch: PositionBatch) -> Evaluation:
        raise AssertionError


class Batchless(UniformEvaluator):
    def __init__(self, size: Any) -> None:
        self.batch_size = size


class Unwritable(UniformEvaluator):
    def __init__(self, scale: Any) -> None:
        self.identity = EvaluatorIdentity("odd", options={"scale": scale})


@pytest.mark.parametrize(
    "evaluator",
    [object(), Nameless(), Batchless(0), Batchless("8"), Unwritable(np.float32(4)), Unwritable(float("nan"))],
)
def test_what_is_no_evaluator_opens_no_graph(evaluator: Any, tmp_path: Path) -> None:
    for path in (None, tmp_path / "a.graph"):
        with pytest.raises(InvalidParameterError, match=r"does not have all of them|must be text,"):
            Graph.open(path, evaluator=evaluator)
    assert not any(tmp_path.iterdir())


def test_the_command_line_combines_and_says_what_is_wrong(
    cli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRAPHSEARCH_STATE_DIR", str(tmp_path))
    path = str(tmp_path / "a.graph")
    both = ("--policy", "uniform", "--value", "builtin")
    search = ("analyze", "startpos", "--visits", "20", "--store", path)
    cli(*search, *both, "--threads", 1).ends(0, "--policy uniform --value builtin")
    assert "threads" not in (tmp_path / "evaluators.json").read_text()  # another search may use others
    cli(*search).ends(0, "is searched with its own evaluator")
    cli(*search, "--policy", "builtin", "--value", "uniform").ends(1, "evaluator")
    cli("evaluate", "startpos", *both).ends(0)
    for wrong in ((*both, "--evaluator", "builtin"), ("--evaluator-option", "x"), ("--policy", "nothing")):
        cli("evaluate", "startpos", *wrong).ends(2)


# ----------------------------------------------------------------------- positions without a search
ENDED = ["7k/6Q1/6K1/8/8/8/8/8 b - - 0 1", "7k/5Q2/6K1/8/8/8/8/8 b - - 0 1", "8/8/8/8/8/8/8/K1k5 w - - 3 80"]


def boards() -> list[chess.Board]:
    """Returns positions of random games, with clocks and numbers of moves, and ended ones between them."""
    found = [unpack(words) for words in random_words()[:150]]
    for number, board in enumerate(found):
        board.fullmove_number = 1 + number
    for place, fen in enumerate(ENDED):
        found.insert(40 * place + 7, chess.Board(fen))
    return found


@pytest.mark.parametrize("size", [1, 64])
def test_every_position_gets_its_own_answer_in_order(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(module, "OUTSIDE_BATCH", size)
    evaluator = HashEvaluator()
    answers = itertools.chain.from_iterable(module.assess_boards(evaluator, boards()))
    for board, found in zip(boards(), answers, strict=True):
        assert found.position == fen_of(board)
        assert found.terminal == terminal_kind(board)
        if found.terminal:
            assert found.priors == {}
            continue
        batch = PositionBatch.from_boards([board])
        said = evaluator.evaluate(batch)
        assert list(found.wdl) == pytest.approx(said.wdl[0].tolist(), abs=1e-6)
        expected = dict(zip([move.uci() for move in legal_moves(board)], said.priors.tolist(), strict=True))
        assert found.priors == pytest.approx(expected, abs=1e-6)
        assert list(found.priors.values()) == sorted(found.priors.values(), reverse=True)


# ------------------------------------------------------------------ tables before an evaluator
EQUAL = TableEntry((0.3, 0.4, 0.3), {})


@pytest.fixture(scope="module")
def folder() -> Path:
    return shared_data("syzygy")


@pytest.fixture(scope="module")
def tables(folder: Path) -> Iterator[Syzygy]:
    opened = Syzygy(folder)
    yield opened
    opened.close()


def records_of(graph: Graph) -> list[Any]:
    assert graph.store
    return [record for chunk in graph.store.scan() for record in map(chunk.record, range(len(chunk)))]


def test_what_tables_know_is_exact_and_the_evaluator_is_not_asked(tables: Syzygy, folder: Path) -> None:
    inner = TableEvaluator({}, EQUAL)
    evaluator = TablebaseEvaluator(inner, tables)
    chance, kinds = Random(1), ("KPvK", "KPvKP", "KBNvK", "KQvK", "KRvK", "KRvKR", "KQvKP")
    boards = [placed(chance, men) for men in kinds for _ in range(12)]
    batch = PositionBatch.from_boards(boards)
    answer = checked(batch, evaluator.evaluate(batch))
    assert not inner.asked
    assert evaluator.hits == len(boards)
    assert answer.bounds is not None
    with chess.syzygy.open_tablebase(str(folder)) as oracle:
        for board, wdl, bounds in zip(boards, answer.wdl.tolist(), answer.bounds.tolist(), strict=True):
            result = {2: 1, -2: -1}.get(oracle.probe_wdl(board), 0)
            assert bounds == [result, result]
            assert wdl == [float(result == 1), float(result == 0), float(result == -1)]


def test_a_table_with_the_content_of_another_is_named_and_ends_the_search(
    cli: Cli, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(folder / "KQvK.rtbw", tmp_path / "KBBvK.rtbw")
    monkeypatch.setattr("graphsearch.evaluators.tablebase.PROBE_SECONDS", 0.2)
    board = chess.Board("7k/8/8/8/8/8/8/KBB5 w - - 0 100")
    opened = Syzygy(tmp_path)
    with pytest.raises(EvaluatorError, match=r"gives no answer for 7k/8/8/8/8/8/8/KBB5 w .* another table"):
        opened.result(board)
    opened.close()
    cli("analyze", board.fen(), "--visits", "20", "--syzygy", tmp_path).ends(1, "gives no answer for")


def test_a_request_to_stop_ends_a_probe_that_lasts(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(folder / "KQvK.rtbw", tmp_path / "KBBvK.rtbw")
    monkeypatch.setattr("graphsearch.evaluators.tablebase.PROBE_SECONDS", math.inf)
    stop, board = threading.Event(), chess.Board("7k/8/8/8/8/8/8/KBB5 w - - 0 100")
    threading.Timer(0.1, stop.set).start()
    evaluator = TablebaseEvaluator(UniformEvaluator(), Syzygy(tmp_path))
    with Graph.open(None, evaluator=evaluator) as graph:
        assert analyze(graph, board, Limits(), stop=stop).stop_reason == "stop"
    evaluator.close()


@pytest.mark.parametrize(
    ("fen", "text", "plies"),
    [
        ("8/8/8/8/4k3/8/3QK3/8 w - - 0 1", "White wins, mate or zeroing in 5: 1. Qd6 Kf5 2. Kf3 ", 9),
        ("8/8/8/8/8/4k3/3q4/K7 b - - 0 1", "Black wins, mate or zeroing in 3: 1... Kd3 2. Kb1 ", 5),
        ("8/8/8/8/4k3/8/3QK3/8 b - - 3 10", "White wins, mate or zeroing in 7: 10... Ke5 11. Kf3 ", 14),
        ("8/8/8/4k3/8/4K3/4P3/8 w - - 0 1", "draw\n", 1),
        ("8/3B4/8/1N6/7K/8/8/7k w - - 91 1", "White wins, mate or zeroing in 5: 1. Kg3 ", 9),
    ],
)
def test_a_root_that_tables_know_ends_at_once_with_their_line(
    cli: Cli, folder: Path, fen: str, text: str, plies: int
) -> None:
    words = ("analyze", fen, "--syzygy", folder)
    assert cli(*words).ends(0).out.split("\n\n")[1].startswith(f"tablebase: {text}")
    found = cli(*words, "--json").json
    assert len(found["tablebase"]["line"]) == plies
    assert found["new_visits"] < 10
    best = found["moves"][0]
    assert found["bestmove"] == best["move"] == found["tablebase"]["line"][0]
    assert best["q"] == found["q"], "a move that keeps a proven result shows it"


@pytest.mark.parametrize(("clock", "bounds"), [(7, (1, 1)), (86, (1, 1)), (87, (-1, 1))])
def test_a_win_is_known_as_long_as_it_comes_before_the_50_move_rule(
    tables: Syzygy, clock: int, bounds: tuple[int, int]
) -> None:
    board = chess.Board(f"8/8/8/4k3/8/4K3/8/6Q1 w - - {clock} 1")  # DTZ 13
    batch = PositionBatch.from_boards([board])
    answer = TablebaseEvaluator(TableEvaluator({}, EQUAL), tables).evaluate(batch)
    assert ((-1, 1) if answer.bounds is None else tuple(answer.bounds[0].tolist())) == bounds


def test_the_rest_of_a_batch_goes_to_the_evaluator(tables: Syzygy) -> None:
    inner = TableEvaluator({}, EQUAL)
    evaluator = TablebaseEvaluator(inner, tables)
    known, running = placed(Random(2), "KPvK"), chess.Board("8/8/8/4k3/8/4K3/8/6Q1 w - - 90 1")
    castling = chess.Board("4k3/8/8/8/8/8/8/4K2R w K - 0 1")
    boards = [chess.Board(), known, running, castling]
    batch = PositionBatch.from_boards(boards)
    answer = checked(batch, evaluator.evaluate(batch))
    assert inner.asked == [board.epd() for board in (boards[0], running, castling)]
    assert present(answer.bounds)[[0, 2, 3]].tolist() == [[-1, 1]] * 3
    assert answer.wdl[0].tolist() == pytest.approx([0.3, 0.4, 0.3])
    assert evaluator.identity == inner.identity


@pytest.mark.parametrize(
    ("gather", "batch"), [(SearchParams().gather, 1), *((name, 32) for name in GATHERERS)]
)
def test_a_search_ends_at_what_is_proven_and_keeps_the_proof(
    tables: Syzygy, tmp_path: Path, gather: str, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "has_dtz", False)  # the root has a clock, so it is not proven
    board = chess.Board("8/8/8/3k4/8/3K4/3P4/7r b - - 4 1")  # ..Rh3+ and so on: wins the pawn or trades
    inner = TableEvaluator({}, EQUAL)
    path = tmp_path / "a.graph"
    with Graph.open(path, evaluator=TablebaseEvaluator(inner, tables)) as graph:
        params = SearchParams(minibatch_size=batch, gather=gather, overlap=0)
        analyze(graph, board, Limits(visits=400), params, searchmoves=board.legal_moves)
        seen = records_of(graph)
    proven = [record for record in seen if not record.terminal and record.bounds[0] == record.bounds[1]]
    assert proven
    for record in proven:
        assert not any(edge.n for edge in record.edges)
        assert record.v == record.bounds[0]
        assert record.evaluator == 0
    assert len(inner.asked) == sum(record.evaluator == 1 for record in seen)


def test_a_proven_root_is_searched_and_keeps_its_value(tables: Syzygy, tmp_path: Path) -> None:
    board = chess.Board("8/8/8/4k3/8/4K3/4P3/8 w - - 0 1")
    with Graph.open(tmp_path / "a.graph", evaluator=TablebaseEvaluator(BuiltinEvaluator(), tables)) as graph:
        result = analyze(graph, board, Limits(visits=300), searchmoves=board.legal_moves)
    expected = tables.result(board)
    assert (result.node.bounds, result.node.q) == ((expected, expected), expected)
    assert result.visits >= 300
    assert present(show(tmp_path / "a.graph", board)).as_dict()["bounds"] == [expected, expected]


def test_a_win_is_not_proven_for_a_path_with_a_higher_clock(tables: Syzygy, tmp_path: Path) -> None:
    won = chess.Board("8/8/8/4k3/8/4K3/8/6Q1 w - - 0 1")
    drawn = chess.Board("3k4/3P4/4K3/8/8/8/8/8 w - - 0 1")
    with Graph.open(tmp_path / "a.graph", evaluator=TablebaseEvaluator(BuiltinEvaluator(), tables)) as graph:
        for board in (won, drawn):
            analyze(graph, board, Limits(visits=1))
    for board, later in ((won, (0, 1)), (drawn, None)):
        result = tables.result(board)
        moved = board.copy()
        moved.halfmove_clock = 30
        node, after = (present(show(tmp_path / "a.graph", one)) for one in (board, moved))
        assert node.bounds == (result, result)
        assert after.bounds == (later or (result, result))


@pytest.mark.parametrize(("clock", "result", "plies"), [(91, 1, 9), (92, 0, 1)])
def test_a_mate_on_ply_101_wins_nothing(tables: Syzygy, clock: int, result: int, plies: int) -> None:
    board = chess.Board(f"8/3B4/8/1N6/7K/8/8/7k w - - {clock} 1")  # the tables count a ply too few
    assert (tables.result_now(board), len(present(tables.best_line(board))[1])) == (result, plies)


def test_safe_moves_keep_the_result(tables: Syzygy) -> None:
    chance = Random(7)
    for men in ("KQvK", "KPvK", "KPvKP", "KRvKR"):
        for board in [placed(chance, men) for _ in range(4)]:
            safe, result = present(tables.safe_moves(board)), present(tables.result(board))
            for move in board.legal_moves:
                board.push(move)
                assert (move in safe) == (tables.result(board) == -result)
                board.pop()
            assert set(present(tables.best_moves(board))) <= set(safe)


def test_best_moves_keep_the_result_and_reach_it_soonest(tables: Syzygy, folder: Path) -> None:
    """Played out by both sides: every win is won within the 50-move rule, every draw is held."""
    with chess.syzygy.open_tablebase(str(folder)) as oracle:
        for men in ("KRvK", "KPvK", "KPvKP"):
            board = placed(Random(5), men)
            wdl, game = oracle.probe_wdl(board), board.copy()
            while (
                not game.is_game_over() and not game.is_fifty_moves() and (moves := tables.best_moves(game))
            ):
                assert all(move in game.legal_moves for move in moves)
                game.push(moves[0])
            outcome = game.outcome(claim_draw=True)
            if outcome is not None:
                assert outcome.winner == {2: board.turn, -2: not board.turn}.get(wdl), board.fen()


def test_tables_that_are_missing_or_damaged_are_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(EvaluatorError, match=r"the folder .*nowhere of Syzygy tables does not exist"):
        create(EvaluatorSpec(syzygy=str(tmp_path / "nowhere")))
    (tmp_path / "KQvK.rtbw").symlink_to("on a disk that is not there")
    with pytest.raises(EvaluatorError, match=r"has no Syzygy tables; expected \*\.rtbw"):
        create(EvaluatorSpec(syzygy=str(tmp_path)))
    (tmp_path / "KQvK.rtbw").write_bytes(b"rubbish")
    evaluator = create(EvaluatorSpec(syzygy=str(tmp_path)))
    assert isinstance(evaluator, TablebaseEvaluator)
    with pytest.raises(EvaluatorError, match=r"a Syzygy table in .* cannot be read"):
        evaluator.evaluate(PositionBatch.from_boards([placed(Random(1), "KQvK")]))
    evaluator.close()


def test_tables_may_come_and_go_and_are_brought_into_a_file_by_reevaluating_it(
    tmp_path: Path, cli: Cli, folder: Path
) -> None:
    path, fen = tmp_path / "a.graph", "6k1/5p2/8/8/8/8/4PR2/4K3 w - - 0 1"
    search = ("analyze", fen, "--visits", "200", "--store", path)
    cli(*search).ends(0)
    again = ("reevaluate", path, "--evaluator", "builtin", "--syzygy", folder, "--json")
    first, second = (cli(*again).json["evaluated"] for _ in range(2))
    assert first > 0 == second
    cli(*search, "--syzygy", folder).ends(0, f"--syzygy {folder}")
    assert "own evaluator" not in cli(*search).ends(0).err
    cli("store", "verify", path).ends(0)
    cli(*search, "--syzygy", tmp_path / "no").ends(2)
