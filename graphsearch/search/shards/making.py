"""Opens or creates the cluster for `--shards K`: an existing one must have K shards."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from ...errors import StoreError
from ...evaluators.factory import EvaluatorSpec, create
from ...store.record.provenance import EvaluatorIdentity
from ...store.sharded.files import check_files
from ...store.sharded.manifest import Manifest, is_sharded, read_manifest
from .parting import check_new, new_cluster, shard_nodes


@contextmanager
def cluster_at(
    path: str | os.PathLike[str], shards: int | None, identity: Callable[[], EvaluatorIdentity]
) -> Iterator[Manifest]:
    """Yields the manifest of a cluster; a new one is removed if the body fails before it has records.

    Args:
      path: the folder. shards: how many; None: those of an existing cluster.
      identity: returns the identity that a new one is bound to.

    Raises:
      InvalidParameterError: for an impossible number of shards.
      StoreError: if the cluster has another number, its files do not belong together, or it cannot be made.
    """
    folder = Path(path)
    if is_sharded(folder) or shards is None:
        manifest = read_manifest(folder)
        if shards not in (None, manifest.shards):
            raise StoreError(
                f"{folder} has {manifest.shards} shards, not {shards}; leave the number out, or make another"
                " cluster: `graphsearch store merge`, then `split`"
            )
        check_files(folder, manifest)
        yield manifest
        return
    check_new(folder, shards)
    manifest = new_cluster(folder, shards=shards, identity=identity())
    try:
        yield manifest
    except BaseException:
        with suppress(StoreError):
            if not sum(shard_nodes(folder, manifest)):
                shutil.rmtree(folder, ignore_errors=True)
        raise


def identity_of(spec: EvaluatorSpec) -> EvaluatorIdentity:
    """Returns the identity of the evaluator of a spec.

    Raises:
      EvaluatorError: if the evaluator cannot be made.
    """
    with closing(create(replace(spec, pool=None))) as made:
        return made.identity
