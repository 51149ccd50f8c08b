"""Time for a move: on no clock, however odd, more than there is."""

from __future__ import annotations

from itertools import product

import pytest

from graphsearch.uci.clock import BatchPace, Budget, Standing, clock_budget, may_stop, move_budget

TIMES = (-(10**6), -1, 0, 1, 2, 10, 50, 99, 100, 101, 500, 1000, 10_000, 60_000, 10**7, 10**9)
INCREMENTS = (-5, 0, 1, 10, 100, 1000, 60_000, 10**9)
TO_GO = (None, 1, 2, 5, 40, 1000)
OVERHEADS = (0, 10, 100, 5000)


def test_no_clock_is_overdrawn() -> None:
    for time, increment, to_go, overhead in product(TIMES, INCREMENTS, TO_GO, OVERHEADS):
        budget = clock_budget(time, increment, to_go, overhead_ms=overhead)
        left = max(0, time) / 1000
        assert 0 <= budget.planned <= budget.most <= left, (time, increment, to_go, overhead)
        if left > 2 * overhead / 1000:
            assert budget.most <= left - overhead / 1000, (time, increment, to_go, overhead)


@pytest.mark.parametrize("to_go", TO_GO)
def test_more_time_or_increment_never_means_less_thought(to_go: int | None) -> None:
    for increment, overhead in product(INCREMENTS, OVERHEADS):
        budgets = [clock_budget(time, increment, to_go, overhead_ms=overhead) for time in TIMES]
        assert budgets == sorted(budgets, key=lambda b: b.planned)
    for time in TIMES:
        budgets = [clock_budget(time, increment, to_go) for increment in INCREMENTS]
        assert budgets == sorted(budgets, key=lambda b: b.planned)


@pytest.mark.parametrize(
    ("time", "increment", "to_go", "moves"),
    [(60_000, 0, 40, 200), (2000, 0, 5, 200), (10_000, 100, None, 60)],
)
def test_the_overhead_of_every_move_stays_on_the_clock(
    time: int, increment: int, to_go: int | None, moves: int
) -> None:
    left = float(time)
    for played in range(moves):
        to_come = None if to_go is None else to_go - played % to_go
        budget = clock_budget(int(left), increment, to_come, overhead_ms=100)
        factor = 1.0 if to_go is None else 1.6
        left -= 1000 * min(factor * budget.planned, budget.most) + 100
        assert left > 0, played
        left += increment + (time if to_come == 1 else 0)


def test_a_time_for_the_move_is_nearly_used_up() -> None:
    assert move_budget(0).most == 0
    assert move_budget(-5).most == 0
    for ms, overhead in product((1, 10, 100, 1000, 10**6), (0, 10, 100, 5000)):
        budget = move_budget(ms, overhead_ms=overhead)
        assert 0.75 * ms / 1000 <= budget.most <= ms / 1000


def test_a_search_ends_early_only_when_no_other_move_can_overtake() -> None:
    budget = Budget(1.0, 2.5)
    assert not may_stop(budget, Standing(0.5, 1000, best_n=700, second_n=300))
    assert may_stop(budget, Standing(0.5, 1000, best_n=900, second_n=300))
    assert may_stop(budget, Standing(1.0, 1000, best_n=400, second_n=390))


def test_an_unsure_search_gets_more_time_but_never_more_than_the_most() -> None:
    budget = Budget(1.0, 1.3)
    new = Standing(1.1, 1000, best_n=400, second_n=390, best_since=1.0)
    assert not may_stop(budget, new)
    assert not may_stop(budget, Standing(1.1, 1000, best_n=400, second_n=390, agrees=False))
    assert may_stop(budget, Standing(1.3, 1000, best_n=400, second_n=390, best_since=1.29))


def test_one_legal_move_takes_no_time() -> None:
    assert may_stop(Budget(10.0, 20.0), Standing(0.0, 0.0, 0, 0, choices=1))


@pytest.mark.parametrize(("fixed", "each"), [(0.0, 0.001), (0.01, 0.0001), (0.002, 0.01), (1.0, 0.001)])
def test_batches_grow_to_what_the_time_allows_and_never_pass_it_far(fixed: float, each: float) -> None:
    pace = BatchPace()
    pace.plan(1.6)  # a sixteenth of it is 0.1 s
    size, sizes = pace(0, 0.0), []
    for _ in range(40):
        sizes.append(size)
        size = pace(size, fixed + each * size)
    assert sizes[0] == 1
    assert all(b <= 2 * max(sizes[: i + 1]) for i, b in enumerate(sizes[1:]))
    assert sizes[-1] >= 0.5 * max(1, (0.1 - fixed) / each)
    for size in sizes:
        assert fixed + each * size <= max(0.11, 2.2 * fixed, fixed + each)


def test_batches_shrink_when_the_time_does() -> None:
    pace = BatchPace()
    pace.plan(None)
    size = pace(0, 0.0)
    for _ in range(20):
        size = pace(size, 0.001 * size)
    assert size > 200
    pace.plan(0.16)
    assert pace(size, 0.001 * size) <= 11
