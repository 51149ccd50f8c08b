"""The manifest of a cluster: its files, the owners of positions, the evaluator (`schema/cluster.md`)."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...base.errors import InputFileError, SchemaVersionError, StoreError
from ...base.limits import MANIFEST, read_file
from ...base.version import __version__
from ..record.provenance import EvaluatorIdentity
from .ownership import VIRTUAL_SHARDS, Owners, even_owners

NAME = "manifest.json"
FORMAT_VERSION = 1
FACT = "cluster"  # row of a file's store_info that names its cluster and its shard


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The files of a cluster and their owners.

    Attributes:
      cluster: its id, 32 hex digits, which every file repeats.
      identity: the evaluator that it is bound to.
      files: names of the shards' files, in its folder.
      owners: the shard of each virtual shard, `[4096]`.
    """

    cluster: str
    identity: EvaluatorIdentity
    files: tuple[str, ...]
    owners: Owners

    @classmethod
    def new(cls, shards: int, identity: EvaluatorIdentity) -> Manifest:
        """Returns the manifest of a new cluster."""
        files = tuple(f"shard-{number:03}.graph" for number in range(shards))
        return cls(cluster=uuid.uuid4().hex, identity=identity, files=files, owners=even_owners(shards))

    @property
    def shards(self) -> int:
        """Number of shards."""
        return len(self.files)

    def fact(self, number: int) -> str:
        """Returns the value of the row `FACT` in the file of a shard."""
        return json.dumps({"cluster": self.cluster, "shard": number, "of": self.shards})

    def as_dict(self) -> dict[str, Any]:
        """Returns the manifest as a JSON object."""
        firsts = np.flatnonzero(np.diff(self.owners, prepend=-1))  # of runs: each extends to the next
        return {
            "format": FORMAT_VERSION,
            "program": f"graphsearch {__version__}",
            "cluster": self.cluster,
            "evaluator": json.loads(self.identity.as_json()),
            "files": list(self.files),
            "owners": [[int(first), int(self.owners[first])] for first in firsts],
        }

    def write(self, folder: Path) -> None:
        """Writes the manifest into a folder, atomically."""
        part = folder / f"{NAME}.part"
        try:
            part.write_text(json.dumps(self.as_dict(), indent=1) + "\n", encoding="utf-8")
            part.replace(folder / NAME)
        except OSError as error:
            raise StoreError(f"{folder / NAME} cannot be written: {error.strerror or error}") from None


def is_sharded(path: str | os.PathLike[str]) -> bool:
    """Returns whether a path is the folder of a cluster."""
    return (Path(path) / NAME).is_file()


def read_manifest(folder: str | os.PathLike[str]) -> Manifest:
    """Returns the manifest of a folder.

    Raises:
      SchemaVersionError: if it has another format number.
      StoreError: if it is missing, unreadable or invalid.
    """
    path = Path(folder) / NAME
    if not path.is_file():
        raise StoreError(f"{folder} has no {NAME}; make a cluster with `graphsearch lab split`")
    try:
        text = read_file(path, MANIFEST)
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror or error}") from None
    try:
        return _parsed(text, path)
    except InputFileError as error:
        raise StoreError(f"{path} is no manifest of a cluster: {error}") from None


def _parsed(text: bytes, path: Path) -> Manifest:
    from ...base.outside import Format, ManifestFile, declared

    version = declared(Format, text).format
    if version != FORMAT_VERSION:
        raise SchemaVersionError(
            f"{path} has format {version}, this version of graphsearch reads format {FORMAT_VERSION};"
            " use the version that wrote it"
        )
    found = declared(ManifestFile, text)
    if len(set(found.files)) < len(found.files):
        twice = next(f for f in found.files if found.files.count(f) > 1)
        raise InputFileError(f"{twice} is listed twice")
    return Manifest(
        cluster=found.cluster,
        identity=EvaluatorIdentity(**found.evaluator.model_dump()),
        files=found.files,
        owners=_owners(found.owners, len(found.files)),
    )


def _owners(runs: Sequence[tuple[int, int]], shards: int) -> Owners:
    """Returns the table of owners from its runs: first virtual shard, shard."""
    firsts, numbers = zip(*runs, strict=True)
    if firsts[0] != 0 or sorted(set(firsts)) != list(firsts):
        raise InputFileError("owners must be in order, from virtual shard 0 on")
    if max(numbers) >= shards:
        raise InputFileError(f"owners name shard {max(numbers)}, of which there is no file")
    owners = np.zeros(VIRTUAL_SHARDS, np.int64)
    for first, number in runs:
        owners[first:] = number
    return owners
