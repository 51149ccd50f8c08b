"""Merges graph files: all their content in one file, with values up to date.

`store/union.py` and `store/union_records.py` have the rules; `docs/contributing/merging.md` explains them.

The steps in order:

    numbers    evaluators, runs, books and others get the numbers of the output file
    records    one input after the other, as new versions
    tables     the content of plain tables, imports, books and transposition entries
    values     `refresh`, and the tables that follow from the records

Every step is one transaction or several, and repeating it changes nothing. So an interrupted merge leaves a
sound file, and the same command finishes it. A new file appears when it is complete.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ...base.answer import picked
from ...base.errors import (
    EvaluatorMismatchError,
    InvalidParameterError,
    SchemaVersionError,
    StoreError,
    StoreLockedError,
    StoreMovedError,
    UnfinishedError,
)
from ...store.backup import new_file
from ...store.file import check_is_file, file_bytes, real_path, remove_side_files
from ...store.provenance import UNBOUND, UNSETTLED, EvaluatorIdentity, differences
from ...store.rewrite import Advance, OnProgress, Progress, merge_all, shrink
from ...store.salvage import salvage
from ...store.store import Store
from ...store.union import (
    Input,
    open_input,
    unite_books,
    unite_entries,
    unite_imports,
    unite_keyed,
    unite_numbered,
    unite_studies,
)
from ...store.union_records import RecordCounts, unite_records
from ...store.verify import Problems, verify
from .refresh import WRITING, lacks_memory, settle, write_root_tables

MERGING, TABLES = "merging", "tables of"  # stages; then those of `refresh`
AnyPath = str | os.PathLike[str]
_NO_DAMAGE = (EvaluatorMismatchError, SchemaVersionError, StoreLockedError, StoreMovedError, UnfinishedError)


@dataclass(slots=True)
class InputReport:
    """The result of merging one input.

    Attributes:
      path: the file, as the user gave it. salvaged: whether it is damaged and a salvaged copy was merged.
      counts: of its records. rows: rows of plain tables that were written, by table, including those of
        books, imports and entries.
    """

    path: str
    salvaged: bool = False
    counts: RecordCounts = field(default_factory=RecordCounts)
    rows: dict[str, int] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Returns the JSON object for the list `inputs`."""
        counts = asdict(self.counts) | {"unchanged": self.counts.unchanged}
        written = {name: number for name, number in self.rows.items() if number}
        return {"path": self.path, "salvaged": self.salvaged, **counts, "rows": written}


@dataclass(slots=True, kw_only=True)
class MergeReport(Problems):
    """The result of a merge; `problems` lists everything that was left out or contradicts itself.

    Attributes:
      path: the target file. evaluator: that it is bound to.
      nodes: of the file. bytes: of the file with its log.
      inputs: in the order in which they were named.
      numbered: rows with numbers of their own, such as runs, that were written, by table.
      refreshed: the report of `refresh`, if values were refreshed. unsettled: why they were not.
      seconds: wall time.
    """

    path: str = ""
    evaluator: str = ""
    nodes: int = 0
    bytes: int = 0
    inputs: list[InputReport] = field(default_factory=list)
    numbered: dict[str, int] = field(default_factory=dict)
    refreshed: dict[str, Any] | None = None
    unsettled: str = ""
    seconds: float = 0.0

    @property
    def complete(self) -> bool:
        """Whether the file has everything from every input."""
        return not self.found

    @property
    def written(self) -> int:
        """Number of records that are new or changed."""
        return sum(one.counts.fresh + one.counts.changed for one in self.inputs)

    def as_dict(self) -> dict[str, Any]:
        """Returns the JSON object of `graphsearch store merge`."""
        return {
            **picked(self, "path complete evaluator nodes bytes inputs"),
            "numbered": {name: number for name, number in self.numbered.items() if number},
            **picked(self, "refresh=refreshed unsettled seconds found problems"),
        }


@dataclass(slots=True)
class _Source:
    """An input: its name as the user gave it, its real path, and its salvaged copy if it is damaged.

    Attributes:
      problems: one line for each loss in that copy.
    """

    name: str
    path: Path
    rescued: Path | None = None
    problems: tuple[str, ...] = ()

    @property
    def readable(self) -> Path:
        """The file to read."""
        return self.rescued or self.path


def merge(
    paths: Sequence[AnyPath],
    *,
    new: AnyPath | None = None,
    into: AnyPath | None = None,
    force: bool = False,
    ram_bytes: int | None = None,
    on_progress: OnProgress | None = None,
) -> MergeReport:
    """Merges graph files into a new file or into one of them, and returns a report.

    Inputs are only read, each in its state at the beginning. For a damaged input the merge uses the sound
    part and lists the rest.

    Args:
      paths: the inputs; `into` may be among them.
      new: the file to make. into: the file to add to. Give exactly one of the two.
      force: replace an existing file, and begin even if the disk may be too small.
      ram_bytes: most memory for bringing values up to date, 100 bytes a node; with less, searches do so on
        their way.
      on_progress: called often.

    Raises:
      InvalidParameterError: if the files cannot be merged as requested.
      EvaluatorMismatchError: if the files have several evaluators.
      UnfinishedError: if a reevaluation of one of them is unfinished.
      StoreLockedError: if a process is writing the output file.
      CorruptRecordError: if the output file is damaged.
      StoreError: if a file cannot be read or written, or there is no room on the disk.
    """
    place = new if into is None else into
    if place is None or (new is not None and into is not None):
        raise InvalidParameterError("name the new file with -o, or the one to merge into with --into")
    target, started = real_path(place), time.monotonic()
    found = _sources(paths, target, is_new=into is None)
    work = _Merge(target, found, into is None, on_progress or (lambda _: None), force, ram_bytes)
    try:
        report = work.run()
    finally:
        for rescued in filter(None, (source.rescued for source in found)):
            with suppress(OSError):
                rescued.unlink(missing_ok=True)
                remove_side_files(rescued, lock=True)
    report.seconds = time.monotonic() - started
    return report


def _sources(paths: Sequence[AnyPath], target: Path, *, is_new: bool) -> list[_Source]:
    """Returns the inputs of a merge, without the target, which may be the only path.

    Raises:
      InvalidParameterError: if too few are named, or the new file is one of them.
      StoreError: if one does not exist.
    """
    found = [_Source(os.fspath(path), real_path(path)) for path in paths]
    for source in found:
        check_is_file(source.path, create=False)
    if not is_new:
        check_is_file(target, create=False)
        found = [source for source in found if not source.path.samefile(target)]
    elif any(target.exists() and source.path.samefile(target) for source in found):
        raise InvalidParameterError(f"{target} is one of the inputs; name a new file, or use --into")
    if len(paths) < 1 + is_new:
        raise InvalidParameterError(
            f"name at least {'two graph files' if is_new else 'one graph file'} to merge"
        )
    return found


class _Merge:
    def __init__(
        self,
        target: Path,
        found: Sequence[_Source],
        is_new: bool,
        on_progress: OnProgress,
        force: bool,
        ram_bytes: int | None,
    ) -> None:
        self._target, self._sources, self._is_new = target, found, is_new
        self._on_progress, self._force, self._ram_bytes = on_progress, force, ram_bytes

    def run(self) -> MergeReport:
        """Runs the merge; if an input turns out to be damaged, again with its rescued part."""
        try:
            return self._once()
        except _NO_DAMAGE:
            raise
        except StoreError:
            if not self._rescue():
                raise
        return self._once()

    def _rescue(self) -> bool:
        """Salvages the damaged inputs, beside the target; returns whether there were any."""
        damaged = 0
        for source in self._sources:
            if source.rescued is None and not verify(source.path, self._on_progress).ok:
                place = self._target.with_name(f"{self._target.name}.rescued{damaged}")
                report = salvage(source.path, place, force=True, on_progress=self._on_progress)
                source.rescued = place
                source.problems = tuple(f"{source.name}: {line}" for line in report.problems)
                damaged += 1
        return bool(damaged)

    def _once(self) -> MergeReport:
        report = MergeReport(path=str(self._target))
        report.inputs = [InputReport(source.name, source.rescued is not None) for source in self._sources]
        for problem in (problem for source in self._sources for problem in source.problems):
            report.add(problem)
        with ExitStack() as stack:
            inputs = [stack.enter_context(open_input(one.readable, one.name)) for one in self._sources]
            if not self._force:
                self._check_room()
            if self._is_new:
                self._make(inputs, report)
            else:
                self._add(inputs, report)
            report.bytes = file_bytes(self._target)
        return report

    def _check_room(self) -> None:
        """Raises StoreError if the disk has less room than a merge may take."""
        most = sum(file_bytes(source.readable) for source in self._sources)
        free = shutil.disk_usage(self._target.parent).free
        if free < most:
            raise StoreError(
                f"{self._target.parent} has {free >> 20:,} MiB free, merging may take {most >> 20:,} MiB;"
                " free some space, name a file on another disk, or merge all the same with --force"
            )

    # ------------------------------------------------------------------ the output file
    def _make(self, inputs: Sequence[Input], report: MergeReport) -> None:
        identity = _identity_of(self._stores(inputs))
        given = None if identity == UNBOUND else identity
        with (
            new_file(self._target, force=self._force) as part,
            Store.open(part, create=True, identity=given, unbound=True) as store,
        ):
            self._unite(store, inputs, report)
            merge_all(store, Advance(self._on_progress, WRITING, store.catalog.records))
            shrink(store)

    def _add(self, inputs: Sequence[Input], report: MergeReport) -> None:
        with Store.open(self._target) as store:
            identity = _identity_of({self._target: store} | self._stores(inputs))
            if not store.is_bound and identity != UNBOUND:
                with store.transaction():
                    store.bind_evaluator(store.add_evaluator(identity))
            self._unite(store, inputs, report)
            while store.merge_step():
                self._say(WRITING, "", 0, store.catalog.records)

    def _stores(self, inputs: Sequence[Input]) -> dict[Path, Store]:
        """Returns the inputs by the paths that the user gave."""
        return {source.path: one.store for source, one in zip(self._sources, inputs, strict=True)}

    # ------------------------------------------------------------------ its content
    def _unite(self, store: Store, inputs: Sequence[Input], report: MergeReport) -> None:
        """Writes the content of the inputs, then everything computed from it."""
        report.evaluator = store.identity.describe() if store.is_bound else ""

        def in_step() -> None:
            store.write_fact(UNSETTLED, "1")

        with store.transaction():
            report.numbered = unite_numbered(store, inputs, report.add)
        for one, its in zip(inputs, report.inputs, strict=True):

            def show(done: int, one: Input = one) -> None:
                self._say(MERGING, one.name, done, max(done, one.store.node_count))

            show(0)
            its.counts = unite_records(store, one, on_records=show, leave_out=report.add, in_step=in_step)
        for one, its in zip(inputs, report.inputs, strict=True):
            self._say(TABLES, one.name, 0, 1)
            with store.transaction():
                its.rows = unite_imports(store, one, report.add)
                its.rows |= unite_keyed(store, one, report.add)
                its.rows |= unite_books(store, one, report.add)
                its.rows |= unite_entries(store, one, report.add)
                its.rows |= unite_studies(store, one)
        if store.read_fact(UNSETTLED) is not None:
            self._settle(store, report)
        report.nodes = store.node_count

    def _settle(self, store: Store, report: MergeReport) -> None:
        """Brings values up to date, and the tables computed from the records."""
        report.unsettled = lacks_memory(store.node_count, self._ram_bytes, "refreshing")
        if not report.unsettled:
            settled = settle(store, ram_bytes=self._ram_bytes, on_progress=self._on_progress)
            report.refreshed = settled.as_dict()
        with store.transaction():
            for root in write_root_tables(store):
                store.raise_root(root["key"], root["n"])
            if not report.unsettled:
                store.write_fact(UNSETTLED, None)

    def _say(self, stage: str, name: str, done: int, total: int) -> None:
        self._on_progress(Progress(stage, done, total, f" {Path(name).name}" if name else ""))


def _identity_of(stores: Mapping[Path, Store]) -> EvaluatorIdentity:
    """Returns the evaluator of all files; UNBOUND if no file is bound to one.

    Args:
      stores: of the files, by the path that the user gave.

    Raises:
      EvaluatorMismatchError: if there are several; it names both and the remedy.
    """
    bound = {path: store.identity for path, store in stores.items() if store.is_bound}
    first = next(iter(bound), None)
    if first is None:
        return UNBOUND
    its = bound[first]
    for path, identity in bound.items():
        if identity.as_json() != its.as_json():
            raise EvaluatorMismatchError(
                f"{first} has values of {its.describe()}, {path} of {identity.describe()}"
                f" ({differences(its, identity)});"
                " give both one evaluator with `graphsearch reevaluate` first"
            )
    return its
