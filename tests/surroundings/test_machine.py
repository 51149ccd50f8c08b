"""What a container leaves of the machine: cores and memory by the limits of control groups."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from graphsearch.base import machine
from graphsearch.graph.arena import default_budget

ONE, TWO = "4:memory:/box\n2:cpu,cpuacct:/box\n1:name=systemd:/\n", "0::/outer/box\n"
GB = 1 << 30


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    def forget() -> None:
        machine.memory_bytes.cache_clear()
        machine._quota.cache_clear()

    forget()
    yield
    forget()


def limited(
    monkeypatch: pytest.MonkeyPatch, folder: Path, groups: str, limits: Mapping[str, str]
) -> tuple[int, int]:
    """Returns cores and memory in a container with these control groups and files of limits."""
    monkeypatch.setattr(machine, "GROUPS", folder / "groups")
    monkeypatch.setattr(machine, "LIMITS", folder / "limits")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)), raising=False)
    (folder / "groups").write_text(groups)
    for place, text in limits.items():
        path = folder / "limits" / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    return machine.cores(), machine.memory_bytes()


def test_no_limit_is_the_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    largest = str((1 << 63) - 4096)
    for k, (groups, limits) in enumerate(
        [
            ("", {}),
            ("nonsense\n:\n", {"memory.max": "1"}),
            (TWO, {"cpu.max": "max 100000", "memory.max": "max"}),
            (ONE, {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}),
            (ONE, {"memory/memory.limit_in_bytes": largest}),
            (TWO, {"cpu.max": "0 0", "memory.max": "0"}),
        ]
    ):
        machine.memory_bytes.cache_clear()
        machine._quota.cache_clear()
        (tmp_path / str(k)).mkdir()
        assert limited(monkeypatch, tmp_path / str(k), groups, limits) == (64, physical)


def test_the_least_limit_of_all_groups_above_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    limits = {
        "outer/box/cpu.max": "max 100000",
        "outer/cpu.max": "250000 100000",
        "outer/box/memory.max": str(2 * GB),
        "memory.max": str(GB),
    }
    assert limited(monkeypatch, tmp_path, TWO, limits) == (3, GB)
    assert default_budget() == int(0.8 * GB)


def test_unseen_groups_leave_a_container_its_limits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    limits = {
        "cpu/cpu.cfs_quota_us": "50000",
        "cpu/cpu.cfs_period_us": "100000",
        "memory/memory.limit_in_bytes": str(GB),
    }
    assert limited(monkeypatch, tmp_path, ONE, limits) == (1, GB)
