"""The clock of a running search."""

from __future__ import annotations

import time

from graphsearch.search.job import Control, SearchClock
from graphsearch.search.params import Limits


def test_a_slow_report_is_followed_by_an_interval_without_one() -> None:
    reports = []

    def report(seconds: float) -> None:
        reports.append(seconds)
        time.sleep(0.3)

    clock = SearchClock(Limits(), Control(on_progress=report, interval=0.2))
    while not reports:
        clock.tell(lambda: clock.seconds)
    clock.tell(lambda: clock.seconds)
    assert len(reports) == 1
