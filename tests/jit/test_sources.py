"""The digests under which the code of kernels is cached."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from graphsearch.jit import sources

VISIT, MATE = "graphsearch.search.visit_kernel", "graphsearch.solvers.mate.proof_kernel"


@pytest.mark.parametrize(
    ("edited", "changed"),
    [
        ("position/board_kernel.py", {VISIT, MATE}),
        ("search/puct_kernel.py", {VISIT}),
        ("position/tables.py", {VISIT, MATE}),
        ("solvers/mate/proof_kernel.py", {MATE}),
        ("cli/show.py", set()),
    ],
)
def test_an_edit_changes_the_digest_of_the_kernels_that_it_reaches(
    edited: str, changed: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (VISIT, MATE):
        import_module(module)
    before = {module: sources.sources_digest.__wrapped__(module) for module in (VISIT, MATE)}

    def text(path: str) -> bytes:
        return Path(path).read_bytes() + (
            b"\n# edited" if Path(path).as_posix().endswith(f"/{edited}") else b""
        )

    monkeypatch.setattr(sources, "_text", text)
    after = {module: sources.sources_digest.__wrapped__(module) for module in (VISIT, MATE)}
    assert {module for module in after if after[module] != before[module]} == changed


def test_kernels_outside_the_package_may_use_every_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    before = sources.sources_digest.__wrapped__(__name__)
    monkeypatch.setattr(sources, "_text", lambda path: Path(path).read_bytes() + b"\n# edited")
    assert sources.sources_digest.__wrapped__(__name__) != before
