"""Prepares a merge: finds the inputs, chooses the evaluator, salvages damaged files, checks disk space."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ...base.errors import EvaluatorMismatchError, InvalidParameterError, StoreError
from ...base.system import join_command
from ..file import check_is_file, real_path
from ..record.provenance import UNBOUND, EvaluatorIdentity, differences
from ..side_files import file_bytes, remove_side_files
from ..upkeep.salvage import salvage
from ..upkeep.verify import verify

if TYPE_CHECKING:
    from ..store import Store

AnyPath = str | os.PathLike[str]


@dataclass(slots=True)
class Source:
    """An input of a merge.

    Attributes:
      name: as the user gave it. path: its real path. rescued: its salvaged copy, if it is damaged.
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


def sources(paths: Sequence[AnyPath], target: Path, *, is_new: bool) -> list[Source]:
    """Returns the inputs of a merge, without the target, which may be the only path.

    Raises:
      InvalidParameterError: if too few are named, or the new file is one of them.
      StoreError: if one does not exist.
    """
    found = [Source(os.fspath(path), real_path(path)) for path in paths]
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


def identity_of(stores: Mapping[Path, Store], kept: Path | None) -> EvaluatorIdentity:
    """Returns the evaluator that the union is bound to; UNBOUND if no file is bound to one.

    Args:
      stores: of all files, by the path that the user gave. kept: the file with the evaluator to keep.

    Raises:
      EvaluatorMismatchError: if there are several and `kept` has none; it names both and the remedies.
    """
    bound = {path: store.identity for path, store in stores.items() if store.is_bound}
    if kept in bound:
        return bound[kept]
    first = next(iter(bound), None)
    if first is None:
        return UNBOUND
    for path, identity in bound.items():
        if identity.as_json() != bound[first].as_json():
            its = bound[first]
            raise EvaluatorMismatchError(
                f"{first} has values of {its.describe()}, {path} of {identity.describe()}"
                f" ({differences(its, identity)}); merge with --keep {join_command([str(first)])} and"
                " re-evaluate the rest then, or give both one evaluator with `graphsearch reevaluate` first"
            )
    return bound[first]


def check_room(target: Path, found: Sequence[Source]) -> None:
    """Raises StoreError if the disk has less room than a merge may take."""
    most = sum(file_bytes(source.readable) for source in found)
    free = shutil.disk_usage(target.parent).free
    if free < most:
        raise StoreError(
            f"{target.parent} has {free >> 20:,} MiB free, merging may take {most >> 20:,} MiB; free some"
            " space, name a file on another disk, or merge all the same with --force"
        )


def rescue(found: Sequence[Source], target: Path, on_progress: Callable[[str, int, int], object]) -> bool:
    """Salvages the damaged files among some, beside the target; returns whether there were any.

    Args:
      on_progress: called with the name of a file, work done and work in all.
    """
    damaged: list[Source] = []
    for source in found:

        def report_progress(done: int, total: int, name: str = source.name) -> None:
            on_progress(name, done, total)

        if source.rescued is None and not verify(source.path, report_progress).ok:
            place = target.with_name(f"{target.name}.rescued{len(damaged)}")
            report = salvage(source.path, place, force=True, progress=report_progress)
            source.rescued = place
            source.problems = tuple(f"{source.name}: {line}" for line in report.problems)
            damaged.append(source)
    return bool(damaged)


def remove_rescued(found: Sequence[Source]) -> None:
    """Removes the salvaged copies; the target now has their contents."""
    for path in filter(None, (source.rescued for source in found)):
        with suppress(OSError):
            path.unlink(missing_ok=True)
            remove_side_files(path, lock=True)
