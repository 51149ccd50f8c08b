"""Merges graph files: all their content in one file, with values up to date.

`store/union.py` has the rules; `docs/contributing/merging.md` explains them. The steps in order:

    numbers    evaluators, runs, books and others get the numbers of the output file
    records    of all files in step, in one pass over the output file
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
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ...base.answer import Answer
from ...base.errors import CorruptRecordError, EvaluatorMismatchError, InvalidParameterError, StoreError
from ...store.backup import new_file
from ...store.file import check_is_file, file_bytes, real_path
from ...store.provenance import UNBOUND, UNSETTLED, EvaluatorIdentity, differences
from ...store.rewrite import MERGING, Advance, OnProgress, Progress, merge_all, shrink, tidy
from ...store.salvage import salvage
from ...store.store import Store
from ...store.tables.books import DECIDED, books
from ...store.union import Input, RecordCounts, open_input, unite_numbered, unite_records, unite_tables
from ...store.verify import Problems, verify
from .refresh import lacks_memory, settle, write_root_tables

TABLES = "tables of"  # the stage after that of the records; then those of `refresh`
AnyPath = str | os.PathLike[str]


@dataclass(slots=True)
class InputReport(Answer):
    """The result of merging one input; `path`: as the user gave it.

    `salvaged`: whether it is damaged and a salvaged copy was merged. `counts`: of its records. `rows`: those
    written without a number of their own, by table.
    """

    json_keys = "path salvaged *counts rows"

    path: str
    salvaged: bool = False
    counts: RecordCounts = field(default_factory=RecordCounts)
    rows: dict[str, int] = field(default_factory=dict)


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

    json_keys = """path complete evaluator nodes bytes inputs
        numbered refresh=refreshed unsettled seconds found problems"""

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
    def written(self) -> int:
        """Number of records that are new or changed."""
        return sum(one.counts.fresh + one.counts.changed for one in self.inputs)


_Source = tuple[str, Path]  # an input: its name as the user gave it, and the file to read


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

    Inputs are only read, each in its state at the beginning. Of a damaged input the sound part is merged, and
    the rest listed.

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
    work = _Merge(target, into is None, on_progress or (lambda _: None), force, ram_bytes)
    try:
        report = work.run(found, [])
    except StoreError as error:
        if type(error) is not StoreError and not isinstance(error, CorruptRecordError):
            raise  # no damage
        damaged = [not verify(file, on_progress).ok for _, file in found]
        if not any(damaged):
            raise
        losses = list[str]()
        with TemporaryDirectory(prefix=f"{target.name}.rescued-", dir=target.parent) as folder:
            for k, (name, file) in enumerate(found):
                if damaged[k]:
                    found[k] = name, Path(folder, f"{k}.graph")
                    lost = salvage(file, found[k][1], on_progress=on_progress).problems
                    losses += [f"{name}: {line}" for line in lost]
            report = work.run(found, losses)
    report.seconds = time.monotonic() - started
    return report


def _sources(paths: Sequence[AnyPath], target: Path, *, is_new: bool) -> list[_Source]:
    """Returns the inputs of a merge, without the target, which may be the only path; checks them."""
    found = [(os.fspath(path), real_path(path)) for path in paths]
    for file in [file for _, file in found] + ([] if is_new else [target]):
        check_is_file(file, create=False)
    others = [source for source in found if not (target.exists() and source[1].samefile(target))]
    if is_new and len(others) < len(found):
        raise InvalidParameterError(f"{target} is one of the inputs; name a new file, or use --into")
    if len(paths) < 1 + is_new:
        few = "two graph files" if is_new else "one graph file"
        raise InvalidParameterError(f"name at least {few} to merge")
    return others


@dataclass(frozen=True, slots=True)
class _Merge:
    """The output file of a merge, and how to write it; the fields are as for `merge`."""

    target: Path
    is_new: bool
    on_progress: OnProgress
    force: bool
    ram_bytes: int | None

    def run(self, sources: Sequence[_Source], losses: Sequence[str]) -> MergeReport:
        """Merges the sources into the target; `losses`: of salvaged sources, for the report."""
        report = MergeReport(path=str(self.target))
        report.inputs = [InputReport(name, file != real_path(name)) for name, file in sources]
        for loss in losses:
            report.add(loss)
        path = self.target
        with ExitStack() as stack:
            inputs = [stack.enter_context(open_input(file, name)) for name, file in sources]
            # by the paths that the user gave: a salvaged copy has another one
            stores = {real_path(one.name): one.store for one in inputs}
            if self.is_new:
                path = stack.enter_context(new_file(self.target, force=self.force))
            most = sum(file_bytes(file) for _, file in sources)
            free = shutil.disk_usage(self.target.parent).free
            if free < most and not self.force:
                raise StoreError(
                    f"{self.target.parent} has {free >> 20:,} MiB free, merging may take {most >> 20:,} MiB;"
                    " free some space, name a file on another disk, or merge all the same with --force"
                )
            with Store.open(path, create=self.is_new, unbound=self.is_new) as store:
                identity = _identity_of(stores if self.is_new else {self.target: store} | stores)
                if not store.is_bound and identity != UNBOUND:
                    with store.transaction():
                        store.bind_evaluator(store.add_evaluator(identity))
                self._unite(store, inputs, report)
                if self.is_new:
                    merge_all(store, self.on_progress)
                    shrink(store)
                else:
                    tidy(store)
        report.bytes = file_bytes(self.target)
        return report

    def _unite(self, store: Store, inputs: Sequence[Input], report: MergeReport) -> None:
        """Writes the content of the inputs, then everything computed from it."""
        report.evaluator = store.identity.describe() if store.is_bound else ""
        was_settled = store.read_fact(UNSETTLED) is None
        with store.transaction():
            report.numbered = unite_numbered(store, inputs, report.add)
        if records := sum(one.store.node_count for one in inputs):
            store.write_fact(UNSETTLED, "1")
            advance = Advance(self.on_progress, MERGING, records + store.catalog.records)
            counts = [its.counts for its in report.inputs]
            unite_records(store, inputs, counts, on_records=advance, leave_out=report.add)
        for one, its in zip(inputs, report.inputs, strict=True):
            self.on_progress(Progress(TABLES, 0, 1, f" {Path(one.name).name}"))
            with store.transaction():
                its.rows = unite_tables(store, one, report.add)
                for book in books(store) if its.rows or report.written or not was_settled else ():
                    store.write_fact(DECIDED.format(book.id), None)
        if report.written or not was_settled:
            report.unsettled = lacks_memory(store.node_count, self.ram_bytes, "refreshing")
            if not report.unsettled:
                found = settle(store, ram_bytes=self.ram_bytes, on_progress=self.on_progress)
                report.refreshed = found.as_dict()
            with store.transaction():
                for root in write_root_tables(store):
                    store.raise_root(root["key"], root["n"])
        if not report.unsettled:
            store.write_fact(UNSETTLED, None)
        report.nodes = store.node_count


def _identity_of(stores: Mapping[Path, Store]) -> EvaluatorIdentity:
    """Returns the evaluator of all files, UNBOUND if no file is bound to one, and refuses several.

    `stores`: by the path that the user gave.
    """
    bound = [(path, store.identity) for path, store in stores.items() if store.is_bound]
    if not bound:
        return UNBOUND
    (first, its), *others = bound
    for path, identity in others:
        if identity.as_json() != its.as_json():
            raise EvaluatorMismatchError(
                f"{first} has values of {its.describe()}, {path} of {identity.describe()}"
                f" ({differences(its, identity)});"
                " give both one evaluator with `graphsearch reevaluate` first"
            )
    return its
