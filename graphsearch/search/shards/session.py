"""One shard's part of a search: waves until the leader ends it, and saves that all shards make together.

leader   word: go on? save? visits allowed -- one word to all, before every wave
others   ask: to save, because memory is full; report whether the last save is done
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from ...graph import arena_kernel
from ...graph.graph import Graph
from ...graph.saving import Work
from ...store.sharded.ownership import even_owners, owner_of
from ...store.sharded.saved_waves import Save
from .. import param_layout as layout
from ..forced import ForcedVisits
from ..job import SearchJob
from ..session import LOAD_SECONDS, SaveClock
from . import descent_kernel
from . import messages_kernel as m
from .memory import Gathered, ShardContext
from .mesh import Talk, connections_between, run_together
from .part import PROGRESS_SECONDS, ShardPart, ShardReport
from .wave import ShardWaves

STOP, SAVE, KNOWN, LANDS = 1, 2, 4, 8  # bits of the leader's word; above them the visits allowed
ALLOWED_SHIFT = 8
WANTS_SAVE, SAVES, IS_HELD = 1, 1 << 16, 1 << 32  # requests of shards: each kind is counted
COUNT = (1 << 16) - 1
SHARDS_BATCH = 256  # by default: every wave is a round of messages


class ShardSearch(ShardPart):
    """One shard's part of a search by several shards."""

    def __init__(
        self, graph: Graph, job: SearchJob, place: ShardContext, stop: threading.Event, *, since: Save
    ) -> None:
        """Prepares a search that adds to the run of a save; the leader's `stop` ends it."""
        super().__init__(graph, job, batch=SHARDS_BATCH)
        self.take_up(since)
        self._place, self._stop, self._shown = place, stop, self.started
        overlap = bool(self.params.overlap)
        batch = self.params.minibatch_size
        self._waves = ShardWaves(graph, self.root, batch, place, overlap=overlap, game=self.game)
        self._flying: Gathered | None = None
        # whether forced visits still catch up, and the number of those excluded from the limits
        self._catches_up, self._passed_over = False, 0
        self._clock = SaveClock(graph, self._waves.most_nodes, job.save_seconds)
        self._evaluations = 0  # of all shards
        self._asked = 0  # requests of all shards at the leader's last word

    # ---------------------------------------------------------- the search
    def talk(self) -> Talk[ShardReport]:
        """Runs the search, in step with the other shards; returns this shard's report."""
        with self.graph.searching:
            try:
                yield from self._begin()
                yield from self._loop()
                self._root_record = self.forced.record() if self.forced else None
                yield from self._save_all()
                self.graph.merge_up_to(None)
            finally:
                self._waves.close(self._flying)
                self.end()
        return self.report(self._place.number, leads=self._place.leads, traffic=self._waves.traffic)

    @property
    def _writes_root(self) -> bool:
        return self._place.leads and self.job.lists

    def _begin(self) -> Talk[None]:
        self.begin(lists=self._writes_root)
        self.graph.merge_up_to(self._saved_age)
        self.graph.call(self.insert_run)
        self.arena.set_run(self._since.run)
        yield from self._waves.exchange_headers()  # all shards are there

    def _loop(self) -> Talk[None]:
        while True:
            word = self._word() if self._place.leads else 0
            word = yield from self._waves.agree(word, asks=self._asks())
            self._asked = self._waves.total(m.H_MORE)
            if not self._asked & (COUNT * SAVES):
                self.graph.merge_up_to(self._saved_age)
            if word & STOP:
                return
            if word & LANDS:
                yield from self._land(None)
                continue
            if word & SAVE:
                yield from self._begin_save()
            if self.may_wait():  # continues to read the file, if much of it is needed
                self.graph.load_some(LOAD_SECONDS)
            yield from self._wave(word >> ALLOWED_SHIFT, knows_root=bool(word & KNOWN))
            if self._place.leads:
                self._pass_over()
                self._restrict(bool(word & KNOWN))
                self._show()

    def _wave(self, allowed: int, *, knows_root: bool) -> Talk[None]:
        """Gathers a wave, and completes the one in flight before it; or this one, if waves do not overlap."""
        flying, batch = self._flying, self.params.minibatch_size
        then = yield from self._waves.gather(batch, allowed, knows_root=knows_root, behind=flying)
        self._evaluations += then.leaves
        self._catches_up = self._catches_up and not then.leaves
        if flying:
            yield from self._land(then)
        self._flying = then
        if not (knows_root and self._waves.overlaps and then.leaves):
            yield from self._land(None)

    def _land(self, then: Gathered | None) -> Talk[None]:
        """Completes the wave in flight."""
        assert self._flying is not None
        yield from self._waves.land(self._flying, then)
        self._flying = None

    def _restrict(self, knew_root: bool) -> None:
        """Marks the edges that this search may take at the root, if not all, once the root is known."""
        if not self.job.searchmoves or knew_root:
            return
        listed = frozenset(move.uci() for move in self.job.searchmoves)
        self.list_edges(listed)
        of_tables = {move.uci() for move in self.graph.evaluator.best_moves(self.board) or ()}
        if len(listed) < self.board.legal_moves.count() and listed != of_tables:
            self.forced = ForcedVisits(self.graph, self.board)
            self._catches_up = True

    def _pass_over(self) -> None:
        """Excludes the forced visits of an earlier search of the same moves from the limits.

        Until its first leaf a search of some moves only catches up with known children.
        """
        if self.forced and self._catches_up:
            free = self.forced.unproven - self._passed_over
            self._passed_over += free
            self._before[arena_kernel.VISITS] += free

    # ---------------------------------------------------------- the leader's word
    def _word(self) -> int:
        """Returns the leader's word for the next wave."""
        arena = self.arena
        self._bring_root()
        knows, allowed, is_decided = descent_kernel.root_state(arena.tables, arena.arrays, self.root)
        flying, is_due = self._flying, self._is_save_due()
        if self._is_finished(bool(knows), bool(is_decided)):
            return LANDS if flying else STOP
        if flying:
            allowed -= self._waves.in_flight(flying)
            if is_due or allowed < self.params.minibatch_size:
                return LANDS  # no full batch: with nothing in flight before it, it will be a larger one
        word = (int(allowed) << ALLOWED_SHIFT) | (KNOWN if knows else 0)
        return word | SAVE if is_due else word

    def _bring_root(self) -> None:
        """Reads the root's record into memory: the kind of wave depends on whether the root is known."""
        self.graph.pager.read_all([self.board])
        restricts = self.job.searchmoves and not self.arena.arrays.ints[layout.RESTRICTED]
        if restricts and self.graph.read(self.board) is not None:
            self._restrict(False)

    def _is_finished(self, knows_root: bool, is_decided: bool) -> bool:
        """Returns whether the search ends, and stores why; the root is evaluated whatever the limits."""
        if not knows_root:
            return False
        flying = self._waves.in_flight(self._flying) if self._flying else 0
        self.reason = self.why_stop(  # the wave in flight may complete fewer visits than it has asked for
            self.added(arena_kernel.VISITS) + flying,
            self._evaluations,
            nodes=self._waves.total(m.H_NODES),
            stops=self._stop.is_set(),
            is_held=bool(self._asked // IS_HELD),
            is_decided=is_decided,
        )
        return bool(self.reason)

    def _is_save_due(self) -> bool:
        """Returns whether all shards should save: one asks to or it is due, and the last save is done."""
        if self.graph.store is None or self._asked & (COUNT * SAVES):
            return False
        return bool(self._asked & COUNT) or self._clock.is_due()

    # ---------------------------------------------------------- saving
    def _asks(self) -> int:
        """Returns the requests of this shard to the leader."""
        graph, dirty = self.graph, self.arena.dirty_count
        if graph.store is None:
            return 0
        is_settled = graph.settle(wait=dirty > 2 * self._clock.nodes)
        asks = WANTS_SAVE if dirty >= self._clock.nodes else 0
        return asks + (0 if is_settled else SAVES) + (IS_HELD if graph.log_held else 0)

    def _begin_save(self) -> Talk[None]:
        self._clock.begin()
        note = yield from self._noted(finished=False)
        self.graph.settle(wait=True)
        self.graph.begin_saving(note)

    def _save_all(self) -> Talk[None]:
        """Saves everything, and the end of the search; returns when all shards have saved."""
        note = yield from self._noted(finished=True)
        if self.graph.store:
            self.graph.flush(note)
            lost = self.graph.store.left_out_error()
            if lost:
                raise lost
        yield from self._waves.exchange_headers()

    def _noted(self, *, finished: bool) -> Talk[Work]:
        """Returns a callback that writes the leader's state of the search with the save."""
        visits = yield from self._waves.agree(self.added(arena_kernel.VISITS))
        number = self._save.number + 1
        return self.note(self._since.later(number, visits, self._evaluations), finished=finished)

    # ---------------------------------------------------------- reports
    def _show(self) -> None:
        now = time.monotonic()
        if now - self._shown >= PROGRESS_SECONDS:
            self._shown = now
            self.show(self._evaluations, self._waves.total(m.H_NODES))


def search_together(graphs: Sequence[Graph], job: SearchJob, since: Save | None = None) -> list[ShardReport]:
    """Runs a search by shards that take turns in this process, one for each graph; returns their reports."""
    owners = even_owners(len(graphs))
    leader = owner_of(job.board, owners)
    stop, since = threading.Event(), since or Save(run=1)
    with connections_between(len(graphs)) as connections:
        searches = []
        for k, graph in enumerate(graphs):
            place = ShardContext(
                number=k,
                shards=len(graphs),
                owners=owners,
                leader=leader,
                connections=connections[k],
                tries=1,
            )
            searches.append(ShardSearch(graph, job, place, stop, since=since))
        return run_together([search.talk() for search in searches])
