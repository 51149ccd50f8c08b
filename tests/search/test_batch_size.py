"""The default batch is the smallest that keeps the evaluator busy."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import chess
import pytest

from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.errors import InvalidParameterError
from graphsearch.evaluators.combined import CombinedEvaluator
from graphsearch.evaluators.factory import create
from graphsearch.evaluators.protocol import OUTSIDE_BATCH, Evaluation, PositionBatch
from graphsearch.evaluators.uniform import UniformEvaluator
from graphsearch.uci.options import Settings

from ..support.graphs import numbers_below
from ..support.reference import HashEvaluator


class BatchSizes(HashEvaluator):
    """Notes how many positions it is asked for at once."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def evaluate(self, batch: PositionBatch) -> Evaluation:
        self.sizes.append(len(batch))
        return super().evaluate(batch)


@pytest.mark.parametrize("name", ["builtin", "uniform"])
def test_an_evaluator_inside_the_kernels_gets_one_position_at_a_time(name: str) -> None:
    found = []
    for params in (SearchParams(), SearchParams(minibatch_size=1)):
        with Graph.open(None, evaluator=name) as graph:
            analyze(graph, chess.Board(), Limits(visits=600), params)
            found.append(numbers_below(graph, chess.Board()))
    assert found[0] == found[1]


def test_an_evaluator_outside_the_kernels_gets_as_many_as_it_wants() -> None:
    evaluator = BatchSizes()
    with Graph.open(None, evaluator=evaluator) as graph:
        analyze(graph, chess.Board(), Limits(visits=3000))
    assert max(evaluator.sizes) == OUTSIDE_BATCH
    evaluator.batch_size, evaluator.sizes = 4, []
    with Graph.open(None, evaluator=evaluator) as graph:
        analyze(graph, chess.Board(), Limits(visits=1000))
    assert max(evaluator.sizes) == 4


def test_evaluators_of_several_parts_want_what_their_parts_want() -> None:
    assert create("builtin").batch_size == 1
    assert CombinedEvaluator(UniformEvaluator(), HashEvaluator()).batch_size == OUTSIDE_BATCH


def test_a_file_goes_on_with_another_batch_without_a_word(tmp_path: Path) -> None:
    path = tmp_path / "a.graph"
    for params in (SearchParams(minibatch_size=64), SearchParams()):
        with Graph.open(path) as graph:
            result = analyze(graph, chess.Board(), Limits(visits=300), params)
            assert not result.problems
    assert result.visits >= 600
    with sqlite3.connect(path) as connection:
        runs = [json.loads(text) for (text,) in connection.execute("SELECT params FROM run ORDER BY id")]
    assert [run["MinibatchSize"] for run in runs] == [64, "auto"]
    assert SearchParams.from_options(f"{k}={v}" for k, v in runs[1].items()) == SearchParams()


@pytest.mark.parametrize("text", ["auto", "AUTO", "0"])
def test_auto_is_written_as_a_word_or_as_lc0_writes_it(text: str) -> None:
    assert SearchParams.from_options([f"MinibatchSize={text}"]).minibatch_size == 0
    assert SearchParams().as_dict()["MinibatchSize"] == "auto"
    with pytest.raises(InvalidParameterError, match="MinibatchSize must be 1 to 1048576, or auto, not -1"):
        SearchParams(minibatch_size=-1)


def test_a_chess_program_sees_the_default_as_zero() -> None:
    settings = Settings()
    assert "option name MinibatchSize type spin default 0 min 0 max 1048576" in settings.lines()
    assert settings.params() == SearchParams()
