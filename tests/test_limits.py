"""What comes in from outside: every limit is documented, and one door opens the files of users."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from graphsearch.base.limits import LIMITS, Limit

from .conftest import ROOT
from .test_architecture import nodes_of

PAGE = ROOT / "docs" / "contributing" / "limits.md"


def row(limit: Limit) -> str:
    variable = f"`{limit.variable}`" if limit.variable else ""
    return f"| {limit.what} | {limit.shown()} | {variable} |".replace("  ", " ")


def test_the_page_of_limits_is_what_the_program_holds() -> None:
    row_but_why = r"^(\| (?!the most for|---)[^|]+\|[^|]+\|[^|]+\|) \S.* \|$"
    rows = re.findall(row_but_why, PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert rows == [row(limit) for limit in LIMITS]


# ------------------------------------------------------------------ one door
OPENS = ("open", "read_bytes", "read_text")  # of a path
LIBRARIES = ("load", "fromfile", "memmap", "open", "fdopen", "decompress")  # of those that read files
NO_PATHS = {"Store", "Graph", "cls", "self", "limits", "opener", "openers", "service", "text", "catalog"}

MAY_OPEN = {  # module -> what it opens
    "graphsearch/base/limits.py": "the door",
    "graphsearch/base/system.py": "/proc and /sys, and folders for fsync",
    "graphsearch/jit/cache.py": "the kernels' own sources, the cache of compiled kernels, and its locks",
    "graphsearch/evaluators/builtin/evaluator.py": "the weights of the package",
    "graphsearch/evaluators/nnue/evaluator.py": "the numbers of the package",
    "graphsearch/store/tables/rows.py": "the SQL of the package",
    "graphsearch/position/openings.py": "the openings of the package",
    "graphsearch/store/file.py": "the graph file itself, whose identity it watches, and the lock beside it",
    "graphsearch/store/backup.py": "what it has just written, for fsync",
    "graphsearch/exchange/output.py": "what it writes",
    "graphsearch/uci/protocol.py": "the log that it writes",
    "graphsearch/base/faults.py": "the report that it writes",
    "graphsearch/exchange/site/export.py": "the page of the package",
    "graphsearch/web/serving.py": "the page of the package",
    "cli/__init__.py": "/dev/null",
    "cli/compile_kernels.py": "/dev/null",
    "cli/output.py": "/dev/null",
    "cli/settings.py": "the evaluators that it remembers",
    "cli/serve.py": "the browser",
}


def openings(path: Path) -> Iterator[str]:
    """Yields where a module opens or unpacks something by itself."""
    for node in nodes_of(path):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name) and node.func.id == "open":
            yield f"line {node.lineno}: open"
        if isinstance(node.func, ast.Attribute) and node.func.attr in (*OPENS, *LIBRARIES):
            owner, name = ast.unparse(node.func.value), node.func.attr
            reads = owner in {"np", "numpy", "os", "io", "gzip", "zlib", "tomllib"} and name in LIBRARIES
            last = owner.partition("[")[0].rpartition(".")[2].lstrip("_")
            if reads or (name in OPENS and last not in NO_PATHS):
                yield f"line {node.lineno}: {owner}.{name}"


def test_every_file_of_a_user_is_opened_by_the_one_door() -> None:
    found = {
        path.relative_to(ROOT).as_posix(): list(openings(path))
        for path in [*(ROOT / "graphsearch").rglob("*.py"), *(ROOT / "cli").rglob("*.py")]
    }
    others = {name: lines for name, lines in found.items() if lines and name not in MAY_OPEN}
    assert others == {}
    assert [name for name in MAY_OPEN if not found.get(name)] == []
