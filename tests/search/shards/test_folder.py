"""A cluster's folder in place of a graph file: every command does with it what the docs say."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import chess
import numpy as np
import pytest

from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.base.errors import InvalidParameterError, StoreError, StoreLockedError
from graphsearch.evaluators.uniform import UniformEvaluator
from graphsearch.exchange.pgn_import import import_pgn
from graphsearch.exchange.sources import GivenFile
from graphsearch.graph.sweeps.parts import table_bytes
from graphsearch.graph.sweeps.refresh import refresh
from graphsearch.jit.places import COMPILING
from graphsearch.position.board import board_of
from graphsearch.search.job import SearchJob
from graphsearch.search.shards import master, parting, upkeep
from graphsearch.store.info import info
from graphsearch.store.lock import WriteLock
from graphsearch.store.sharded.files import files_of, open_to_read
from graphsearch.store.sharded.manifest import NAME
from graphsearch.store.upkeep.verify import verify

from ...cli.test_cli_defects import COMMANDS
from ...cli.test_cli_grammar import commands
from ...conftest import ROOT, Cli, Outcome
from ...store.records import lookup
from ...support.clusters import records_of, search_shards
from ...support.positions import after_line

GAMES = """[White "Adams"]
[Black "Baker"]
[Result "1-0"]

1. e4 e5 2. Nf3 Nc6 1-0

[White "Baker"]
[Black "Adams"]
[Result "0-1"]

1. e4 c5 2. Nf3 0-1
"""
BOOK = """[book]
name = "w"
side = "white"
max_ply = 4

[evaluator]
name = "uniform"

[[root]]
moves = "e4"
"""
NEAR = "graph.graph"  # the name of the cluster and of the merged file, each in a folder of its own
FOUND: dict[str, list[object]] = {  # commands with more to find than those of COMMANDS, or a file to name
    "alphabeta": ["startpos", "--depth", 1, "--store", "{graph}"],
    "book build": ["{book}", "--store", "{graph}", "--evaluations", 10],
    "book why": ["startpos", "--moves", "e4", "--store", "{graph}"],
    "book todo": ["w", "--store", "{graph}"],
    "export --format csv": ["--depth", 3, "--store", "{graph}", "-o", "{out}"],
    "export --format pgn": ["--min-visits", 2, "--store", "{graph}", "-o", "{out}"],
    "export --format polyglot": ["--depth", 3, "--store", "{graph}", "-o", "{out}"],
    "import --format polyglot": ["{bin}", "--store", "{graph}"],
    "mate": ["startpos", "--visits", 5, "--store", "{graph}"],
    "lab nodetypes": ["startpos", "--store", "{graph}"],
    "diff": ["{graph}", "{other}", "--lines", 3],
    "find": ["--min-visits", 20, "--store", "{graph}"],
    "lab game": ["1:1", "--store", "{graph}", "--file", "{pgn}"],
    "curve": ["startpos", "--moves", "e4 e5", "--store", "{graph}"],
    "novelties": ["startpos", "--min-games", 1, "--min-visits", 1, "--store", "{graph}"],
    "prepare": ["--player", "Adams", "--store", "{graph}"],
    "lab sql": ["SELECT fen, move, move_n FROM position_moves ORDER BY 1, 2", "--store", "{graph}"],
    "store merge": ["{graph}", "-o", "{new}"],
    "store salvage": ["{graph}", "{out}"],
    "store backup": ["{graph}", "{out}"],
}
FORMATS = ("pgn", "polyglot", "csv", "parquet", "site")  # the others are written as csv is
AT_WORK = ("uci",)  # shown where the engine is tested


@dataclass(frozen=True, slots=True)
class Pair:
    """A cluster, the file that it merges into, and a file from before."""

    cluster: Path
    merged: Path
    before: Path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """Three shards with games, searched at two more roots since they were split."""
    folder = tmp_path_factory.mktemp("pair")
    before, cluster, merged = folder / "before.graph", folder / "many" / NEAR, folder / "one" / NEAR
    cluster.parent.mkdir()
    merged.parent.mkdir()
    (folder / "a.pgn").write_text(GAMES)
    with Graph.open(before, evaluator="uniform") as graph:
        analyze(graph, chess.Board(), Limits(visits=120))
    import_pgn(before, [GivenFile(str(folder / "a.pgn"))], players=True)
    parting.split(before, cluster, shards=3)
    for run, line in ((2, "e4"), (3, "e4 e5 Nf3")):
        search_shards(cluster, UniformEvaluator(), after_line(line), 3, Limits(visits=250), run=run, save=run)
    parting.merge(cluster, merged)
    return Pair(cluster, merged, before)


@pytest.fixture
def pair(made: Pair, tmp_path: Path) -> Pair:
    """A copy of it."""
    for path in (made.cluster.parent, made.merged.parent):
        shutil.copytree(path, tmp_path / path.name)
    return Pair(tmp_path / "many" / NEAR, tmp_path / "one" / NEAR, made.before)


# ------------------------------------------------------------------ every command
KINDS = (  # how rows of the table begin
    *("answer", "write what", "read and write", "keep", "report", "search", "sweeps"),
    *("work", "write a new", "make", "need", "use no"),
)


def documented() -> dict[str, str]:
    """Returns what docs/contributing/cluster.md says of every command."""
    text = (ROOT / "docs" / "contributing" / "cluster.md").read_text()
    part = text.partition("## A folder in place of a file")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*`) \| (.*) \|$", part, re.MULTILINE)
    return {name: what for names, what in rows for name in re.findall("`([^`]+)`", names)}


def named(prefix: str) -> list[str]:
    """Returns the commands of which the docs say so."""
    return sorted(name for name, what in documented().items() if what.startswith(prefix))


def arguments(name: str, pair: Pair, graph: Path, folder: Path) -> list[str]:
    """Returns the command line of a command on a graph; what it writes goes to `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    found = {kind: folder / f"a.{kind}" for kind in ("pgn", "epd", "bin")}
    found |= {"book": folder / "a.toml", "new": folder / "new.graph", "out": folder / "out"}
    found["pgn"].write_text(GAMES)
    found["epd"].write_text("rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - bm e4;\n")
    found["book"].write_text(BOOK)
    found["bin"].write_bytes(bytes.fromhex("463b96181691fc9c 031c 0001 00000000"))  # startpos, e4
    usual: list[object] = ["--store", "{graph}", "-o", "{out}"]  # of an export
    words = FOUND.get(name) or COMMANDS.get(name, usual)
    return [str(word).format(graph=graph, other=pair.before, **found) for word in words]


def test_the_docs_say_of_every_command_what_it_does_with_a_cluster() -> None:
    assert sorted(documented()) == sorted(commands())
    assert all(what.startswith(KINDS) for what in documented().values())


@pytest.mark.parametrize("name", named("answer"))
def test_a_question_to_a_cluster_has_the_answer_of_the_merged_file(
    cli: Cli, made: Pair, tmp_path: Path, name: str
) -> None:
    def ask(graph: Path) -> Outcome:
        found = cli(*name.split(), *arguments(name, made, graph, tmp_path / "given"), "--json")
        out, err = (text.replace(str(graph), NEAR) for text in (found.out, found.err))
        return Outcome(found.code, out, err)

    of_cluster = ask(made.cluster)
    assert of_cluster.code == 0, of_cluster.err
    assert of_cluster == ask(made.merged)


@pytest.mark.parametrize("form", FORMATS)
def test_an_export_of_a_cluster_is_that_of_the_merged_file(
    cli: Cli, made: Pair, tmp_path: Path, form: str
) -> None:
    name, written = f"export --format {form}", []
    for graph in (made.cluster, made.merged):
        folder = tmp_path / graph.parent.name / "written"
        outcome = cli(*name.split(), *arguments(name, made, graph, folder))
        assert outcome.code == 0, outcome.err
        out = folder / "out"
        files = sorted(out.rglob("*")) if out.is_dir() else [out]
        written.append({file.relative_to(folder): _content(file) for file in files if file.is_file()})
    assert written[0] == written[1]


def _content(file: Path) -> object:
    """Returns what a file says: of a table its rows, which may stand in other pieces."""
    if file.suffix != ".parquet":
        return file.read_bytes()
    return pytest.importorskip("pyarrow.parquet").read_table(file).to_pylist()


KEPT = [
    *("study import", "note write", "repertoire import", "repertoire add"),
    *("study list", "study export", "note show", "note list", "repertoire show", "repertoire export"),
    *("study rename", "note delete", "repertoire remove"),
]
LOOKING_AFTER = [name for kind in ("report", "work", "write a new", "sweeps") for name in named(kind)]
WORKS = {
    "looking after": LOOKING_AFTER,
    "books and imports": ["book build", *named("read and write"), "import --format polyglot"],
    "studies, notes and repertoires": KEPT,
}


@pytest.mark.parametrize("names", WORKS.values(), ids=WORKS)
def test_what_works_on_a_file_works_on_a_cluster(
    cli: Cli, pair: Pair, tmp_path: Path, names: list[str]
) -> None:
    given = tmp_path / "given"
    for name in names:
        words = [*name.split(), *arguments(name, pair, pair.cluster, given / name)]
        if names is LOOKING_AFTER:
            assert cli(*words, "--json").ends(0).json
        else:
            cli(*words).ends(0)
    for folder in (pair.cluster, *given.glob("store */out")):
        assert verify(folder).ok
    if names is KEPT:
        assert "ours" in cli("study", "list", pair.cluster).out
        cli("study", "delete", "ours", "--store", pair.cluster).ends(0)
        assert sorted([*KEPT, "study delete"]) == named("keep")


@pytest.mark.parametrize("name", [name for name in named("need") if name not in AT_WORK])
def test_what_needs_one_file_says_so_in_one_line_with_the_remedy(
    cli: Cli, made: Pair, tmp_path: Path, name: str
) -> None:
    before = {file: file.read_bytes() for file in files_of(made.cluster)}
    outcome = cli(*name.split(), *arguments(name, made, made.cluster, tmp_path / "given"))
    lines = [line for line in outcome.err.splitlines() if line.strip() and COMPILING not in line]
    assert (outcome.code, len(lines)) == (1, 1), outcome.err
    assert re.search(
        r"is a cluster, and this needs one file: `graphsearch store merge \S+ -o one.graph`", lines[0]
    )
    assert {file: file.read_bytes() for file in files_of(made.cluster)} == before


def test_merging_several_and_splitting_take_files_only(cli: Cli, pair: Pair, tmp_path: Path) -> None:
    for words in (
        ("store", "merge", pair.cluster, pair.merged, "-o", tmp_path / "a.graph"),
        ("store", "merge", pair.merged, "--into", pair.cluster),
        ("lab", "split", pair.cluster, tmp_path / "b", "--shards", 2),
    ):
        outcome = cli(*words)
        assert (outcome.code, "is a cluster, and this needs one file" in outcome.err) == (1, True), words
    with pytest.raises(StoreError, match="is a cluster, and this needs one file"):
        Graph.open(pair.cluster, evaluator="uniform")


def test_nothing_is_written_into_the_folder_of_the_cluster_that_is_read(cli: Cli, pair: Pair) -> None:
    before = sorted(pair.cluster.iterdir())
    for words in (("pgn", "-o", files_of(pair.cluster)[0]), ("site", "-o", pair.cluster / "site")):
        outcome = cli("export", "--format", words[0], "--store", pair.cluster, *words[1:])
        assert (outcome.code, "lies in the folder of the cluster" in outcome.err) == (1, True)
    assert sorted(pair.cluster.iterdir()) == before


# ------------------------------------------------------------------ the same as of one file


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Holds a cluster as a search does."""
    lock = WriteLock(folder / NAME)
    try:
        yield
    finally:
        lock.release()


def test_a_refreshed_cluster_is_the_refreshed_file_also_in_parts(pair: Pair, tmp_path: Path) -> None:
    whole, again = tmp_path / "whole.cluster", tmp_path / "again.graph"
    shutil.copytree(pair.cluster, whole)
    shutil.copy(pair.merged, again)
    found, expected = upkeep.refresh(whole), refresh(pair.merged)
    assert found.stale
    for name in ("stale", "sweeps", "changed_edges"):
        assert getattr(found, name) == getattr(expected, name)
    assert records_of(files_of(whole)) == records_of([pair.merged])
    tight = table_bytes(found.records) - 1
    parted = [upkeep.refresh(pair.cluster, ram_bytes=tight), refresh(again, ram_bytes=tight)]
    assert parted[0].changed_edges == parted[1].changed_edges > 0
    assert records_of(files_of(pair.cluster)) == records_of([again])
    assert info(whole).runs[-1].kind == "refresh"


def test_a_pruned_cluster_keeps_the_roots_that_any_file_lists(pair: Pair) -> None:
    upkeep.prune(pair.cluster, 100_000)
    with open_to_read(pair.cluster) as store:
        assert store.node_count == len(store.roots()) == 3
        assert all(store.read(board_of(root.position)) for root in store.roots())
    search_shards(pair.cluster, UniformEvaluator(), chess.Board(), 3, Limits(visits=50), run=4, save=4)
    assert verify(pair.cluster).ok


def test_a_backup_holds_what_the_cluster_held_and_is_one_itself(pair: Pair, tmp_path: Path) -> None:
    copy = tmp_path / "copy.cluster"
    with _held(pair.cluster):
        report = upkeep.backup(pair.cluster, copy)
    assert report.nodes == len(records_of(files_of(pair.cluster)))
    assert records_of(files_of(copy)) == records_of(files_of(pair.cluster))
    with pytest.raises(StoreError, match="is there already"):
        upkeep.backup(pair.cluster, copy)


def test_a_damaged_cluster_is_rescued_file_by_file(pair: Pair, tmp_path: Path) -> None:
    files = files_of(pair.cluster)
    held = records_of(files)
    lost = set(records_of(files[1:2]))
    files[1].write_text("nothing of it is left")
    report = upkeep.salvage(pair.cluster, tmp_path / "new.cluster")
    assert (report.found, "shard 1 is empty" in report.problems[0]) == (1, True)
    assert records_of(files_of(tmp_path / "new.cluster")) == {
        key: record for key, record in held.items() if key not in lost
    }
    assert verify(tmp_path / "new.cluster").ok


def test_the_progress_of_all_files_is_one_from_nothing_to_all(pair: Pair, tmp_path: Path) -> None:
    works: list[tuple[Callable[..., object], object]] = [
        *((verify, None), (upkeep.backup, tmp_path / "copy"), (upkeep.salvage, tmp_path / "new")),
        *((upkeep.compact, None), (upkeep.prune, 2)),
    ]
    for work, argument in works:
        told: list[tuple[int, int]] = []
        more = () if argument is None else (argument,)
        work(pair.cluster, *more, progress=lambda *now, told=told: told.append(now))
        assert told == sorted(set(told)), work
        assert (told[-1], {total for _, total in told}) == ((100, 100), {100}), work
        assert len(told) >= 3, "each file has its share"


def test_what_writes_a_cluster_waits_for_no_search(pair: Pair) -> None:
    with _held(pair.cluster):
        for work in (upkeep.compact, upkeep.refresh, lambda folder: upkeep.prune(folder, 2)):
            with pytest.raises(StoreLockedError):
                work(pair.cluster)


def test_a_reader_of_a_cluster_finds_each_record_with_its_owner_in_the_order_asked(pair: Pair) -> None:
    with open_to_read(pair.cluster) as store, open_to_read(pair.merged) as one:
        words = np.concatenate([batch.words for batch in one.scan()])[::-1].copy()
        have, records = lookup(store, words)
        assert have.all()
        assert (records.words == words).all()
        with store.reader() as reader:
            assert sum(map(len, reader.find_any(words))) == len(words)
            assert (reader.problems, reader.ram_bytes > 0) == ([], True)


def test_a_cluster_is_searched_with_flow_alone(pair: Pair) -> None:
    job = SearchJob(board=chess.Board(), params=SearchParams(gather="classic"))
    with pytest.raises(InvalidParameterError, match="Gather=flow only"):
        master.analyze(pair.cluster, job)
