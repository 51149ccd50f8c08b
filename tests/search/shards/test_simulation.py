"""The simulation of clusters: what it says where the answer is known, and that it cannot beat the work."""

from __future__ import annotations

import pytest

from tools.benchmarks.cluster_costs import Costs
from tools.benchmarks.simulation import Wave, simulated

PRICES = Costs(entry=2e-6, row=1e-6, alone=30e-6, step=50e-6, message=1e-6, trip=0.0)
WAVE = Wave(nodes=10**6, steps=40, entries=90_000, visits=30_000, leaves=16_384)


def seconds(shards: int, trip: float = 0.0, in_flight: int = 1, each: float = 0.0) -> float:
    return simulated(
        WAVE, shards=shards, trip=trip, prices=PRICES, share=1.0, each=each, in_flight=in_flight, waves=6
    )


def test_a_trip_costs_every_step_of_one_wave_in_flight() -> None:
    assert seconds(4, trip=1e-3) - seconds(4) == pytest.approx(39.9e-3, rel=0.01)


def test_waves_in_flight_hide_trips_up_to_the_work() -> None:
    work = seconds(4)
    one, two, many = (seconds(4, trip=2e-3, in_flight=flying) for flying in (1, 2, 6))
    assert one > two > many
    assert two >= one / 2
    assert many >= 0.9 * (90_000 * 2.75e-6 / 4 + 40 * 52e-6), "each shard still does its part"
    assert one > work
