"""A shard in its own process, on this machine or another one; the master calls it."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...base.errors import EvaluatorMismatchError, StoreError
from ...base.version import __version__
from ...evaluators.factory import EvaluatorSpec, create
from ...graph.graph import Graph
from ...store.record.provenance import differences
from ...store.sharded.files import check_shard, shard_path
from ...store.sharded.manifest import Manifest, read_manifest
from ...store.sharded.saved_waves import Save
from ...store.store import Store
from ...workers.messages import Leave, failure_of, own_place
from ...workers.process import Pipe
from ..job import SearchJob
from .memory import ShardContext
from .mesh import Address, Mesh
from .part import LoneSearch, ShardProgress, ShardReport
from .session import ShardSearch

THIS_MACHINE = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The parameters of a host.

    Attributes:
      folder: of the cluster, with the same name on all machines. cluster: its number.
      number: of the shard. evaluator: its evaluator. ram_bytes: its memory.
      token: of the search. is_remote: whether other machines connect to it.
    """

    folder: str
    cluster: str
    number: int
    evaluator: EvaluatorSpec
    ram_bytes: int | None
    token: bytes = field(repr=False)
    is_remote: bool = False


class Host:
    """One shard: its graph and its connections.

    One thread at a time calls `do`; others may call `stop`, `progress` and `give_up` meanwhile.
    """

    def __init__(self, setting: Setting) -> None:
        """Stores the setting; `open` opens the files, since it can report failures."""
        self._setting = setting
        self._graph: Graph | None = None
        self._evaluator: Any = None
        self._mesh: Mesh | None = None
        self._search: ShardSearch | LoneSearch | None = None
        self._stop = threading.Event()

    def do(self, method: str, *arguments: Any) -> Any:
        """Returns the result of a method, or its failure with the name of this shard."""
        try:
            return getattr(self, method)(*arguments)
        except BaseException as error:
            return failure_of(error, f"shard {self._setting.number} on {own_place()}")

    def where(self) -> str:
        """Returns the host name and the process."""
        return own_place()

    def check(self, version: str) -> None:
        """Creates the evaluator, and checks everything that the search needs; writes nothing.

        Args:
          version: the master's, checked first: another version may misread the rest.
        """
        if version != __version__:
            raise StoreError(
                f"graphsearch is {__version__} here and {version} where the search was started; install"
                " the same version on all machines"
            )
        manifest = self._manifest()
        with Store.open(self._path(manifest), read_only=True) as store:
            check_shard(store, manifest, self._setting.number)
        self._evaluator = create(self._setting.evaluator)
        if self._evaluator.identity != manifest.identity:
            raise EvaluatorMismatchError(
                f"{self._setting.folder} is bound to another evaluator:"
                f" {differences(manifest.identity, self._evaluator.identity)}"
            )

    def _manifest(self) -> Manifest:
        """Returns the manifest on this machine, if it is the same as the master's."""
        folder = self._setting.folder
        if not Path(folder).is_dir():
            raise StoreError(
                f"{folder} cannot be reached; put the cluster on storage that all machines share, by one name"
            )
        manifest = read_manifest(folder)
        if manifest.cluster != self._setting.cluster:
            raise StoreError(
                f"{folder} is another cluster here, {manifest.cluster[:8]}, not {self._setting.cluster[:8]};"
                " put the cluster on storage that all machines share, by one name"
            )
        return manifest

    def _path(self, manifest: Manifest) -> Path:
        return shard_path(Path(self._setting.folder), manifest, self._setting.number)

    def open(self) -> None:
        """Opens the shard for writing."""
        path = self._path(self._manifest())
        self._graph = Graph.open(path, evaluator=self._evaluator, ram_bytes=self._setting.ram_bytes)

    def listen(self) -> Address:
        """Drops the last search, and listens for the next one; returns the address."""
        setting = self._setting
        self._search = None
        self._stop.clear()
        host = THIS_MACHINE
        if setting.is_remote:
            import ray

            host = str(ray.util.get_node_ip_address())  # type: ignore[no-untyped-call]
        self._mesh = Mesh(setting.number, self._manifest().shards, setting.token, host)
        return self._mesh.address

    def search(self, job: SearchJob, since: Save, addresses: list[Address], leader: int) -> ShardReport:
        """Runs a search with the other shards, in the run of the save `since`; returns the report."""
        assert self._graph is not None
        assert self._mesh is not None
        manifest = read_manifest(self._setting.folder)
        try:
            if manifest.shards == 1:
                alone = self._search = LoneSearch(self._graph, job, self._stop, since=since)
                return alone.run()
            self._mesh.connect(addresses)
            place = ShardContext(
                number=self._setting.number,
                shards=manifest.shards,
                owners=manifest.owners,
                leader=leader,
                connections=self._mesh.connections,
                tries=self._mesh.tries,
            )
            part = self._search = ShardSearch(self._graph, job, place, self._stop, since=since)
            return self._mesh.run(part.talk())
        finally:
            self._mesh.close()

    def known(self) -> Save:
        """Returns this shard's counts in a search that was given up."""
        return self._search.known() if self._search else Save()

    def keep(self, save: Save) -> None:
        """Saves this shard's results after a search that was given up, and closes it."""
        if self._search:
            self._search.keep(save)
        self.leave()

    def progress(self) -> ShardProgress | None:
        """Returns the search's progress at its leader; None elsewhere, or if there is none yet."""
        return self._search.progress if self._search else None

    def stop(self) -> None:
        """Ends the search after its wave."""
        self._stop.set()

    def give_up(self) -> None:
        """Ends a search that waits for other shards, between two steps."""
        if self._mesh:
            self._mesh.give_up()

    def leave(self) -> None:
        """Closes the graph and its file; after a complete search everything is saved."""
        if self._graph is not None:
            self._graph.close()
            self._graph = None
        if self._evaluator is not None:
            self._evaluator.close()
            self._evaluator = None


# ------------------------------------------------------------------ as a process of this machine
@dataclass(frozen=True, slots=True)
class Call:
    """A call to a host: name of a method, and arguments."""

    number: int
    method: str
    arguments: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a call."""

    number: int
    value: Any


def serve(setting: Setting, pipe: Pipe) -> None:
    """Serves the calls of a pipe until `leave`; the process's main function.

    A search has a thread of its own, so that it can be stopped.
    """
    host, lock = Host(setting), threading.Lock()

    def do(call: Call) -> None:
        value = host.do(call.method, *call.arguments)
        with lock:
            pipe.send(Answer(call.number, value))

    while not isinstance(call := pipe.recv(), Leave):
        if call.method == "search":
            threading.Thread(target=do, args=(call,), daemon=True).start()
        else:
            do(call)
    host.do("leave")
