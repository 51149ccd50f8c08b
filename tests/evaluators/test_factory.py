"""Evaluators by name and options, alone and as policy and value."""

from __future__ import annotations

import itertools
import threading
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

import chess
import numpy as np
import pytest

from graphsearch import Graph
from graphsearch.base.errors import EvaluatorError, InvalidParameterError, UnknownEvaluatorError
from graphsearch.evaluators import assess as module
from graphsearch.evaluators.assess import assess_boards
from graphsearch.evaluators.builtin.evaluator import BuiltinEvaluator
from graphsearch.evaluators.factory import CombinedEvaluator, EvaluatorSpec, create, parse_options
from graphsearch.evaluators.pool import PooledEvaluator
from graphsearch.evaluators.protocol import Evaluation, Evaluator, PositionBatch
from graphsearch.evaluators.uniform import UniformEvaluator
from graphsearch.position.board import fen_of, legal_moves, terminal_kind, unpack

from ..support.positions import random_words
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
MINE = """
import os
from dataclasses import dataclass

import numpy as np

from graphsearch.evaluators.protocol import Evaluation, Evaluator
from graphsearch.store.provenance import EvaluatorIdentity


@dataclass
class Settings:
    q: float


class Mine(Evaluator):
    def __init__(self, q="0"):
        self.settings = Settings(float(q))
        self.identity = EvaluatorIdentity("mine", options={"q": self.settings.q})

    def evaluate(self, batch):
        q = self.settings.q
        wdl = np.tile([(1 + q) / 2, 0, (1 - q) / 2], (len(batch), 1))
        lengths = np.diff(batch.offsets)
        return Evaluation(wdl, np.repeat(1 / lengths, lengths))


class Wrong:
    pass


class Broken(Mine):
    def __init__(self):
        raise ValueError("no weights")
"""


def test_a_class_of_a_python_file_is_an_evaluator(tmp_path: Path, cli: Any) -> None:
    path = tmp_path / "mine.py"
    path.write_text(MINE)
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
        f"{path}:Broken": "cannot be made: ValueError: no weights",
    }.items():
        with pytest.raises((EvaluatorError, InvalidParameterError), match=told):
            create(name)
    file, mine = tmp_path / "a.graph", ("--evaluator", f"{path}:Mine")
    cli("analyze", "startpos", "--visits", "20", "--store", file, *mine).ends(0)
    cli("analyze", "startpos", "--visits", "20", "--store", file).ends(
        0, "is searched with its own evaluator"
    )


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
    batch_size = 0


@pytest.mark.parametrize("evaluator", [object(), Nameless(), Batchless()])
def test_what_is_no_evaluator_opens_no_graph(evaluator: Any, tmp_path: Path) -> None:
    for path in (None, tmp_path / "a.graph"):
        with pytest.raises(InvalidParameterError, match="does not have all of them"):
            Graph.open(path, evaluator=evaluator)
    assert not any(tmp_path.iterdir())


def test_the_command_line_combines_and_says_what_is_wrong(cli: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "a.graph")
    both = ("--policy", "uniform", "--value", "builtin")
    search = ("analyze", "startpos", "--visits", "20", "--store", path)
    cli(*search, *both).ends(0, "--policy uniform --value builtin")
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
    answers = itertools.chain.from_iterable(assess_boards(evaluator, boards()))
    for board, found in zip(boards(), answers, strict=True):
        assert found.position == fen_of(board)
        assert found.terminal == terminal_kind(board)
        if found.terminal:
            assert found.priors == {}
            continue
        batch = PositionBatch.from_boards([board])
        said = evaluator.evaluate(batch)
        assert found.wdl.as_list() == pytest.approx(said.wdl[0].tolist(), abs=1e-6)
        expected = dict(zip([move.uci() for move in legal_moves(board)], said.priors.tolist(), strict=True))
        assert found.priors == pytest.approx(expected, abs=1e-6)
        assert list(found.priors.values()) == sorted(found.priors.values(), reverse=True)
