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
import shlex
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field, replace
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
from ...store.backup import backup, new_file
from ...store.file import check_is_file, file_bytes, real_path, remove_side_files
from ...store.provenance import UNBOUND, UNSETTLED, EvaluatorIdentity, Unfinished, differences
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
from .reevaluate import done_of
from .refresh import WRITING, lacks_memory, settle, write_root_tables

MERGING, TABLES = "merging", "tables of"  # stages; then those of `refresh`
AnyPath = str | os.PathLike[str]
_NO_DAMAGE = (EvaluatorMismatchError, SchemaVersionError, StoreLockedError, StoreMovedError, UnfinishedError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Options of a merge.

    Attributes:
      keep: the file whose evaluator is kept, if the inputs have several; records of others stay until
        `reevaluate`, and the file is marked.
      dry_run: merge into a file that is thrown away, and return the report.
      force: replace an existing file, and begin even if the disk may be too small.
      ram_bytes: most memory for bringing values up to date, 80 bytes a node; with less, searches do so on
        their way.
    """

    keep: AnyPath | None = None
    dry_run: bool = False
    force: bool = False
    ram_bytes: int | None = None


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
      path: the target file. dry_run: whether nothing was written.
      evaluator: that the file is bound to. mixed: whether it has records of another one, until `reevaluate`
        replaces them.
      nodes: of the file. bytes: of the file with its log.
      inputs: in the order in which they were named.
      numbered: rows with numbers of their own, such as runs, that were written, by table.
      refreshed: the report of `refresh`, if values were refreshed. unsettled: why they were not.
      seconds: wall time.
    """

    path: str = ""
    dry_run: bool = False
    evaluator: str = ""
    mixed: bool = False
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
            **picked(self, "path dry_run complete evaluator mixed nodes bytes inputs"),
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
    found = _sources(paths, target, is_new=into is None)
    work = _Merge(target, found, into is None, wanted or Wanted(), on_progress or (lambda _: None))
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
        report = MergeReport(path=str(self._target), dry_run=self._wanted.dry_run)
        report.inputs = [InputReport(source.name, source.rescued is not None) for source in self._sources]
        for problem in (problem for source in self._sources for problem in source.problems):
            report.add(problem)
        with ExitStack() as stack:
            inputs = [stack.enter_context(open_input(one.readable, one.name)) for one in self._sources]
            if not self._wanted.force:
                self._check_room()
            place = self._target
            if self._wanted.dry_run:
                place = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=place.parent))) / place.name
            if self._is_new:
                self._make(place, inputs, report)
            else:
                self._add(place, inputs, report)
            report.bytes = file_bytes(place)
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
    def _make(self, place: Path, inputs: Sequence[Input], report: MergeReport) -> None:
        identity = _identity_of(self._stores(inputs), self._kept)
        given = None if identity == UNBOUND else identity
        with (
            new_file(place, force=self._wanted.force) as part,
            Store.open(part, create=True, identity=given, unbound=True) as store,
        ):
            self._unite(store, inputs, report)
            merge_all(store, Advance(self._on_progress, WRITING, store.catalog.records))
            shrink(store)

    def _add(self, place: Path, inputs: Sequence[Input], report: MergeReport) -> None:
        if place != self._target:
            backup(self._target, place)
        with Store.open(place, resume=self._kept == self._target) as store:
            self._bind(store, _identity_of({self._target: store} | self._stores(inputs), self._kept))
            self._unite(store, inputs, report)
            while store.merge_step():
                self._say(WRITING, "", 0, store.catalog.records)

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

    # ------------------------------------------------------------------ its content
    def _unite(self, store: Store, inputs: Sequence[Input], report: MergeReport) -> None:
        """Writes the content of the inputs, then everything computed from it."""
        report.evaluator = store.identity.describe() if store.is_bound else ""
        bound = store.identity.as_json()
        others = any(one.store.is_bound and one.store.identity.as_json() != bound for one in inputs)
        report.mixed = others or store.unfinished is not None

        def in_step() -> None:
            store.write_fact(UNSETTLED, "1")
            if report.mixed and store.unfinished is None:
                store.mark_unfinished(_mark(store))

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
        if store.read_fact(UNSETTLED) is not None and not report.dry_run:
            self._settle(store, report)
        report.nodes = store.node_count

    def _settle(self, store: Store, report: MergeReport) -> None:
        """Brings values up to date, and the tables computed from the records."""
        mark = None
        if store.unfinished:  # `reevaluate` settles it; with its counts over all records
            done = sum(int(done_of(batch, store.evaluator_number).sum()) for batch in store.all_records())
            mark = replace(_mark(store), done=done)
        else:
            report.unsettled = lacks_memory(store.node_count, self._wanted.ram_bytes, "refreshing")
            if not report.unsettled:
                settled = settle(store, ram_bytes=self._wanted.ram_bytes, on_progress=self._on_progress)
                report.refreshed = settled.as_dict()
        with store.transaction():
            for root in write_root_tables(store):
                store.raise_root(root["key"], root["n"])
            if mark:
                store.mark_unfinished(mark)
            if not report.unsettled:
                store.write_fact(UNSETTLED, None)

    def _say(self, stage: str, name: str, done: int, total: int) -> None:
        self._on_progress(Progress(stage, done, total, f" {Path(name).name}" if name else ""))


def _mark(store: Store) -> Unfinished:
    """Returns the mark of a file that will hold records of several evaluators."""
    return Unfinished(store.evaluator_number, total=store.node_count)


def _identity_of(stores: Mapping[Path, Store], kept: Path | None) -> EvaluatorIdentity:
    """Returns the evaluator that the union is bound to; UNBOUND if no file is bound to one.

    Args:
      stores: of all files, by the path that the user gave. kept: the file with the evaluator to keep.

    Raises:
      EvaluatorMismatchError: if there are several and `kept` has none; it names both and the remedies.
    """
    bound = {path: store.identity for path, store in stores.items() if store.is_bound}
    first = kept if kept in bound else next(iter(bound), None)
    if first is None:
        return UNBOUND
    its = bound[first]
    for path, identity in bound.items():
        if kept != first and identity.as_json() != its.as_json():
            raise EvaluatorMismatchError(
                f"{first} has values of {its.describe()}, {path} of {identity.describe()}"
                f" ({differences(its, identity)}); merge with --keep {shlex.quote(str(first))} and"
                " re-evaluate the rest then, or give both one evaluator with `graphsearch reevaluate` first"
            )
    return its
