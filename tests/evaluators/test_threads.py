"""The threads of an evaluator inside the kernels: every portion once, errors to the caller, and an end."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from graphsearch.evaluators.factory import create
from graphsearch.evaluators.inside import PORTION, EvaluationThreads
from graphsearch.evaluators.protocol import PositionBatch
from graphsearch.position.board import unpack

from ..conftest import ROOT, finish
from ..support.pools import until
from ..support.positions import random_words

PREFIX = "graphsearch-evaluation"


def running() -> set[threading.Thread]:
    """Returns the threads of all evaluators; those of earlier tests may end at any time."""
    return {thread for thread in threading.enumerate() if thread.name.startswith(PREFIX)}


def batch_of(count: int) -> PositionBatch:
    return PositionBatch.from_boards([unpack(words) for words in random_words()[:count]])


def test_what_a_portion_raises_reaches_the_caller_and_later_jobs_are_done() -> None:
    threads, done = EvaluationThreads(3), list[int]()

    def fail(portion: int) -> None:
        if portion == 2:
            raise MemoryError("a portion failed")

    with pytest.raises(MemoryError, match="a portion failed"):
        threads.begin(fail, 100).result()
    threads.begin(done.append, 10).result()
    assert len(done) == 10
    threads.close()


def test_a_cancelled_job_waits_for_what_was_begun_and_begins_nothing_more() -> None:
    threads, may_end, begun, ended = EvaluationThreads(2), threading.Event(), threading.Event(), []

    def work(portion: int) -> None:
        begun.set()
        assert may_end.wait(60)
        ended.append(portion)

    job = threads.begin(work, 10)
    assert begun.wait(60)
    threading.Timer(0.05, may_end.set).start()
    job.cancel()
    assert ended == [0]
    threads.close()


def test_threads_of_an_evaluator_that_nobody_closed_end_with_it() -> None:
    evaluator = create("builtin", {"threads": "2"})
    before = running()
    evaluator.evaluate(batch_of(3 * PORTION))
    assert len(running() - before) == 1
    del evaluator
    gc.collect()
    until(lambda: not running() - before)


def test_a_process_ends_with_threads_that_nobody_ended() -> None:
    program = """
import chess
from graphsearch.evaluators.factory import create
from graphsearch.evaluators.protocol import PositionBatch
kept = create("builtin", {"threads": "3"})
kept.evaluate(PositionBatch.from_boards([chess.Board()] * 64))
"""
    process = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=-1, stderr=-1, text=True)
    assert finish(process).code == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # of fork beside threads
def test_a_forked_process_evaluates_alone() -> None:
    evaluator, batch = create("builtin", {"threads": "2"}), batch_of(3 * PORTION)
    expected = evaluator.evaluate(batch).priors
    child = os.fork()
    if child == 0:  # pragma: no cover
        os._exit(0 if np.array_equal(evaluator.evaluate(batch).priors, expected) else 1)
    assert os.waitpid(child, 0)[1] == 0
    evaluator.close()


@pytest.mark.parametrize("temperature", ["1", "1.7"])
def test_answers_do_not_depend_on_the_number_of_threads(temperature: str) -> None:
    batch, answers = batch_of(5 * PORTION + 3), []
    for threads in ("1", "2", "7"):
        evaluator = create("builtin", {"threads": threads, "PolicyTemperature": temperature})
        assert evaluator.evaluate(batch_of(0)).wdl.shape == (0, 3)
        answers.append(evaluator.evaluate(batch))
        assert evaluator.identity == create("builtin", {"PolicyTemperature": temperature}).identity
        evaluator.close()
    for other in answers[1:]:
        assert np.array_equal(other.wdl, answers[0].wdl)
        assert np.array_equal(other.priors, answers[0].priors)
