"""No evaluation is ever paid for twice: the graph is the cache. A counting evaluator is the witness."""

from __future__ import annotations

import os
import random
import shutil
import sys
import time
from functools import partial
from pathlib import Path

import chess
import numpy as np
import pytest

from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.evaluators.protocol import Evaluation, PositionBatch
from graphsearch.graph.sweeps.reevaluate import reevaluate
from graphsearch.position.board import unpack
from graphsearch.store import merging
from graphsearch.store.index import Sizes
from graphsearch.store.store import Store
from graphsearch.store.verify import verify

from ..graph.sweeps.test_refresh import assert_same
from ..support.forks import Fork, Say
from ..support.graphs import searched
from ..support.reference import HashEvaluator

KILLS = 30 if os.environ.get("GRAPHSEARCH_FULL") else 3


# ------------------------------------------------------------------ kill -9
def work_slowly(work: str, path: Path, log: Path, say: Say) -> None:
    """Works slowly enough to be caught; notes what it asks about, and says how much that is."""

    class Slow(HashEvaluator):
        def evaluate(self, batch: PositionBatch) -> Evaluation:
            time.sleep(0.01)
            found = super().evaluate(batch)
            say(len(self.asked))
            return found

    with pytest.MonkeyPatch.context() as patches:
        save_often(patches)
        if work == "search":
            with Graph.open(path, evaluator=Slow(log=log)) as graph:
                analyze(graph, chess.Board(), Limits(), SearchParams(minibatch_size=16, max_wave_share=1.0))
        else:
            reevaluate(path, Slow("other", log=log))


def save_often(patches: pytest.MonkeyPatch) -> None:
    patches.setattr(Store, "open", partial(Store.open, sizes=Sizes(fan_out=3)))
    patches.setattr("graphsearch.store.rewrite.STEP_SECONDS", 0.0)
    session = sys.modules["graphsearch.search.loop"]
    patches.setattr(session, "FLUSH_SECONDS", 0.0)


def killed(work: str, path: Path, log: Path, rng: random.Random) -> None:
    """Kills a process after it has asked about some more positions, if it has not finished."""
    with Fork(partial(work_slowly, work, path, log)) as child:
        enough = rng.randrange(150)
        while (line := child.line()) and int(line) <= enough:
            pass
        time.sleep(rng.random() * 0.05)


def asked_about(log: Path) -> list[str]:
    return log.read_text().splitlines() if log.exists() else []


def known_to(path: Path) -> set[str]:
    """Returns the positions whose evaluation the file has."""
    with Store.open(path, read_only=True) as store:
        batches = [batch.words[batch.evaluator == store.evaluator_number] for batch in store.scan()]
    return {unpack(words).epd() for words in np.concatenate(batches).tolist()}


@pytest.mark.parametrize("work", ["search", "reevaluate"])
def test_what_was_saved_before_a_kill_is_not_paid_again(tmp_path: Path, work: str) -> None:
    path, log = tmp_path / "a.graph", tmp_path / "asked"
    rng = random.Random(work)
    searched(path, chess.STARTING_FEN, "", "e4", "d4 d5", visits=50 if work == "search" else 120)
    saved = known_to(path) if work == "search" else set()
    whole, asked = Path(shutil.copy(path, tmp_path / "whole.graph")), 0
    for _ in range(KILLS):
        killed(work, path, log, rng)
        assert verify(path).problems == []
        lines = asked_about(log)
        again = set(lines[asked:]) & saved
        assert not again, "asked about what the file knew when the work went on"
        saved, asked = known_to(path), len(lines)
    assert saved
    if work == "reevaluate":  # it ends like one that was not killed
        for each in (whole, path):
            reevaluate(each, HashEvaluator("other"))
        assert_same(path, whole)
        assert verify(path).problems == []


def test_a_file_that_was_left_in_the_middle_of_a_merge_opens_while_that_goes_on(tmp_path: Path) -> None:
    path = searched(tmp_path / "a.graph", chess.STARTING_FEN, "", "e4", "d4 d5", visits=120)
    for _ in range(3):
        with Store.open(path, sizes=Sizes(step_blocks=1)) as store:
            batch = next(store.scan())
            store.append(batch.part(0, 30), fresh=0)
            with store.rearranging():
                merging.start(store.connection, store.catalog.segments)
            assert store.merge_step(), "it is in the middle of a merge"
        with Graph.open(path, evaluator=HashEvaluator()) as graph:
            assert graph.pager.complete
