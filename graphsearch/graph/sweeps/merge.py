"""Merges graph files: all their content in one file, with values up to date.

`store/union/` has the rules, part by part; `docs/contributing/merging.md` explains them. The steps in order:

    numbers    evaluators, runs, books and others get the numbers of the output file
    records    one input after the other, as new versions
    tables     the content of plain tables, imports, books and transposition entries
    values     `refresh`, and the tables that follow from the records

Every step is one transaction or several, and repeating it changes nothing. So an interrupted merge leaves a
sound file, and the same command finishes it. A new file appears when it is complete.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from ...base.errors import (
    EvaluatorMismatchError,
    InvalidParameterError,
    SchemaVersionError,
    StoreError,
    StoreLockedError,
    StoreMovedError,
    UnfinishedError,
)
from ...position.board import board_of
from ...store.file import real_path
from ...store.record.provenance import UNBOUND, EvaluatorIdentity
from ...store.side_files import file_bytes
from ...store.store import Store
from ...store.tables.unfinished import Unfinished
from ...store.union.all import InputReport, MergeReport, Union
from ...store.union.preparing import (
    AnyPath,
    Source,
    check_room,
    identity_of,
    remove_rescued,
    rescue,
    sources,
)
from ...store.union.tables import Input, open_input
from ...store.upkeep.backup import new_file
from ...store.upkeep.rewrite import Advance, Progress, merge_all, shrink
from .reevaluate import done_of
from .refresh import check_fits, settle, write_top_tables

RESCUING, SETTLING, WRITING = "rescuing", "settling", "writing"  # stages after those of `union/all.py`
UNSETTLED = "unsettled"  # row of store_info: merged values have not been refreshed yet
_NO_DAMAGE = (EvaluatorMismatchError, SchemaVersionError, StoreLockedError, StoreMovedError, UnfinishedError)


@dataclass(frozen=True, slots=True)
class MergeProgress:
    """Progress of a merge: the stage, the name of its file, and the work done and in total."""

    stage: str
    name: str
    done: int
    total: int


OnProgress = Callable[[MergeProgress], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Options of a merge.

    Attributes:
      keep: the file whose evaluator is kept, if the inputs have several; records of others stay until
        `reevaluate`, and the file is marked.
      dry_run: write nothing, and return the report of a merge; for more than two files the numbers of changed
        records are approximate.
      refresh: bring values up to date at the end; without it searches do so on their way.
      force: replace an existing file, and begin even if the disk may be too small.
      ram_bytes: most memory for bringing values up to date, 60 bytes a node; as for `refresh`.
    """

    keep: AnyPath | None = None
    dry_run: bool = False
    refresh: bool = True
    force: bool = False
    ram_bytes: int | None = None


def merge(
    paths: Sequence[AnyPath],
    *,
    new: AnyPath | None = None,
    into: AnyPath | None = None,
    wanted: Wanted | None = None,
    on_progress: OnProgress | None = None,
) -> MergeReport:
    """Merges graph files into a new file or into one of them, and returns a report.

    Inputs are only read, each in its state at the beginning. For a damaged input the merge uses the sound
    part and lists the rest.

    Args:
      paths: the inputs; `into` may be among them.
      new: the file to make. into: the file to add to. Give exactly one of the two.
      wanted: further options.
      on_progress: called often.

    Raises:
      InvalidParameterError: if the files cannot be merged as requested.
      EvaluatorMismatchError: if the inputs have several evaluators and `keep` is not given.
      UnfinishedError: if a reevaluation of one of them is unfinished.
      StoreLockedError: if a process is writing the output file.
      CorruptRecordError: if the output file is damaged.
      StoreError: if a file cannot be read or written, or there is no room on the disk.
    """
    place = new if into is None else into
    if place is None or (new is not None and into is not None):
        raise InvalidParameterError("name the new file with -o, or the one to merge into with --into")
    target, started = real_path(place), time.monotonic()
    found = sources(paths, target, is_new=into is None)
    work = _Merge(target, found, into is None, wanted or Wanted(), on_progress or (lambda _: None))
    try:
        report = work.run()
    finally:
        remove_rescued(found)
    report.seconds = time.monotonic() - started
    return report


class _Merge:
    def __init__(
        self,
        target: Path,
        found: Sequence[Source],
        is_new: bool,
        wanted: Wanted,
        on_progress: OnProgress,
    ) -> None:
        self._target, self._sources, self._is_new = target, found, is_new
        self._wanted, self._on_progress = wanted, on_progress
        self._kept = None if wanted.keep is None else real_path(wanted.keep)
        if self._kept and self._kept not in {source.path for source in found} | {target}:
            raise InvalidParameterError(f"the file to keep, {wanted.keep}, is none of the files to merge")

    def run(self) -> MergeReport:
        """Runs the merge; if an input turns out to be damaged, again with its rescued part."""
        try:
            return self._once()
        except _NO_DAMAGE:
            raise
        except StoreError:
            if not rescue(self._sources, self._target, lambda *how: self._say(RESCUING, *how)):
                raise
        return self._once()

    def _once(self) -> MergeReport:
        report = MergeReport(path=str(self._target), dry_run=self._wanted.dry_run)
        report.inputs = [InputReport(source.name, source.rescued is not None) for source in self._sources]
        for problem in (problem for source in self._sources for problem in source.problems):
            report.add(problem)
        with ExitStack() as stack:
            inputs = [stack.enter_context(open_input(one.readable, one.name)) for one in self._sources]
            if not self._wanted.force and not self._wanted.dry_run:
                check_room(self._target, self._sources)
            if self._wanted.dry_run:
                self._plan(stack, inputs, report)
            elif self._is_new:
                self._make(inputs, report)
            else:
                self._add(inputs, report)
        report.name_contradictions()
        return report

    # ------------------------------------------------------------------ the output file
    def _make(self, inputs: Sequence[Input], report: MergeReport) -> None:
        identity = identity_of(self._stores(inputs), self._kept)
        with (
            new_file(self._target, force=self._wanted.force) as part,
            self._new(part, identity) as store,
        ):
            self._unite(store, inputs, report)
            merge_all(store, Advance(lambda *how: self._say(WRITING, "", *how), store.catalog.records))
            shrink(store)
        report.bytes = file_bytes(self._target)

    def _new(self, path: Path, identity: EvaluatorIdentity) -> Store:
        given = None if identity == UNBOUND else identity
        return Store.open(path, create=True, identity=given, unbound=True)

    def _add(self, inputs: Sequence[Input], report: MergeReport) -> None:
        with Store.open(self._target, resume=self._kept == self._target) as store:
            self._bind(store, identity_of({self._target: store} | self._stores(inputs), self._kept))
            self._unite(store, inputs, report)
            while store.merge_step():
                self._say(WRITING, "", 0, store.catalog.records)
        report.bytes = file_bytes(self._target)

    def _bind(self, store: Store, identity: EvaluatorIdentity) -> None:
        """Binds a file to the kept evaluator; `reevaluate` must then replace the file's own values."""
        if identity.as_json() == store.identity.as_json():
            return
        with store.transaction():
            was_bound = store.is_bound
            store.bind_evaluator(store.add_evaluator(identity))
            if was_bound and store.node_count:
                store.mark_unfinished(_mark(store))

    def _stores(self, inputs: Sequence[Input]) -> dict[Path, Store]:
        """Returns the inputs by the paths that the user gave."""
        return {source.path: one.store for source, one in zip(self._sources, inputs, strict=True)}

    def _plan(self, stack: ExitStack, inputs: Sequence[Input], report: MergeReport) -> None:
        """Counts the changes, with a temporary file that has only tables."""
        base = None if self._is_new else stack.enter_context(open_input(self._target, str(self._target)))
        stores = ({self._target: base.store} if base else {}) | self._stores(inputs)
        identity = identity_of(stores, self._kept)
        with (
            tempfile.TemporaryDirectory() as folder,
            self._new(Path(folder) / "plan.graph", identity) as store,
        ):
            Union(store, inputs, report, self._say).plan(base)
            nodes = base.store.node_count if base else 0
            self._describe(store, inputs, report)
        report.nodes = nodes + sum(one.counts.fresh for one in report.inputs)
        report.bytes = sum(file_bytes(source.readable) for source in self._sources)
        report.bytes += file_bytes(self._target) if base else 0

    def _describe(self, store: Store, inputs: Sequence[Input], report: MergeReport) -> None:
        """Sets the report's `evaluator` and `mixed`."""
        report.evaluator = store.identity.describe() if store.is_bound else ""
        bound = store.identity.as_json()
        others = any(one.store.is_bound and one.store.identity.as_json() != bound for one in inputs)
        report.mixed = others or store.unfinished is not None

    # ------------------------------------------------------------------ its content
    def _unite(self, store: Store, inputs: Sequence[Input], report: MergeReport) -> None:
        """Writes the content of the inputs, then everything computed from it."""
        self._describe(store, inputs, report)
        if self._wanted.refresh and not report.mixed:
            most = store.node_count + sum(one.store.node_count for one in inputs)
            check_fits(most, self._wanted.ram_bytes, "merging without --no-refresh")

        def begin() -> None:
            store.write_fact(UNSETTLED, "1")
            if report.mixed and store.unfinished is None:
                store.mark_unfinished(_mark(store))

        Union(store, inputs, report, self._say).unite(begin)
        if store.read_fact(UNSETTLED) is not None:
            self._settle(store, report)
        report.nodes = store.node_count

    def _settle(self, store: Store, report: MergeReport) -> None:
        """Brings values up to date, and the tables computed from the records."""
        if self._wanted.refresh and store.unfinished is None:
            settled = settle(store, ram_bytes=self._wanted.ram_bytes, on_progress=self._say_settling)
            report.refreshed = settled.as_dict()
        roots, mark = store.roots(), None
        if store.unfinished:  # with the counts for `reevaluate`, over all records
            done = sum(int(done_of(batch, store.evaluator_number).sum()) for batch in store.scan())
            mark = replace(_mark(store), done=done)
        with store.transaction():
            for done, root in enumerate(roots):
                self._say(WRITING, "", done, len(roots))
                positions = write_top_tables(store, board_of(root.position))
                visits = max((row["n"] for row in positions if row["key"] == root.key), default=0)
                store.raise_root(root.key, visits)
            if mark:
                store.mark_unfinished(mark)
            store.write_fact(UNSETTLED, None)

    # ------------------------------------------------------------------ report
    def _say(self, stage: str, name: str, done: int, total: int) -> None:
        self._on_progress(MergeProgress(stage, name, done, total))

    def _say_settling(self, now: Progress) -> None:
        self._say(SETTLING, "", now.done, now.total)


def _mark(store: Store) -> Unfinished:
    """Returns the mark of a file that will hold records of several evaluators."""
    return Unfinished(store.evaluator_number, total=store.node_count)
