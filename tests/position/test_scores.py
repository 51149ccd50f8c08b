"""Scores in pawns: one growing function of Q, in every command and in UCI."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import chess
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphsearch.position.board import legal_moves
from graphsearch.position.values import D_SCALE, WDL, cp_of, rounded_shares, wdl_from_q
from tests.conftest import Cli
from tests.exchange.exported import made_record
from tests.store.records import filled
from tests.uci.engines import Played, field_of

STEP = 0.01  # two Q so far apart never have the same centipawns
VALUES = st.floats(-1.0, 1.0)


@given(VALUES, VALUES)
def test_centipawns_are_in_the_order_of_q(a: float, b: float) -> None:
    least, most = sorted((a, b))
    assert cp_of(least) <= cp_of(most)
    assert cp_of(-least) == -cp_of(least)
    if most - least >= STEP:
        assert cp_of(least) < cp_of(most)


@given(VALUES, st.floats(0.0, 1.0), st.sampled_from([100, 1000]))
def test_rounded_chances_add_up_and_have_the_rounded_q(q: float, draw: float, whole: int) -> None:
    shares = wdl_from_q(q, draw)
    win, even, loss = rounded_shares(shares, whole)
    assert min(win, even, loss) >= 0
    assert (win + even + loss, win - loss) == (whole, round(whole * shares.q))
    assert rounded_shares(WDL(shares.loss, shares.draw, shares.win), whole) == (loss, even, win)
    assert max(abs(win - whole * shares.win), abs(loss - whole * shares.loss)) <= 1


@pytest.fixture(scope="module")
def certain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a file whose moves differ more in their draws than in Q, some without any chance to lose."""
    rng, board = random.Random(5), chess.Board()
    visits = {board.san(move): (rng.randint(1, 90), rng.uniform(-0.3, 0.6)) for move in legal_moves(board)}
    record = made_record(board, visits)
    shares = [rng.choice([0.0, 0.5, 0.9, 1.0]) * (1 - abs(edge.q)) for edge in record.edges]
    edges = [replace(edge, d=int(D_SCALE * d)) for edge, d in zip(record.edges, shares, strict=True)]
    path = tmp_path_factory.mktemp("certain") / "certain.graph"
    return filled(path, [replace(record, edges=tuple(edges))])


def check_order(rows: Iterable[tuple[float, float]]) -> int:
    """Asserts that (score, Q) pairs are in one order, either way; returns the number of pairs of rows."""
    pairs = list(combinations(rows, 2))
    for (score, q), (other_score, other_q) in pairs:
        assert (score - other_score) * (q - other_q) >= 0, ((score, q), (other_score, other_q))
    return len(pairs)


def test_no_two_moves_shown_contradict_each_other(certain: Path, cli: Cli) -> None:
    moves = cli("show", certain, "--json").json["moves"]
    assert check_order((move["cp"], move["q"]) for move in moves) == 190
    printed = cli("show", certain)
    row = re.compile(r" ([+-]?\d+\.\d\d) +(\d+) +(\d+) +(\d+) ")
    found = [row.search(line) for line in printed.out.splitlines()]
    shown = [(float(cells[1]), int(cells[2]) - int(cells[4])) for cells in found if cells]
    assert check_order(shown) >= 40


def test_uci_shows_scores_in_the_order_of_its_chances(certain: Path) -> None:
    options = {"GraphFile": str(certain), "MultiPV": "20", "UCI_ShowWDL": "true", "Evaluator": "uniform"}
    with Played(options) as game:
        lines = game.ready().ask("position startpos", "go nodes 1", until="bestmove")
    values = {}
    for line in lines:
        if chances := re.search(r" wdl (\d+) (\d+) (\d+) ", line):
            values[field_of(line, "multipv")] = field_of(line, "cp"), int(chances[1]) - int(chances[3])
    assert check_order(values.values()) == 190
