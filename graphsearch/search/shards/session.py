"""One shard's part of a search: waves until the leader ends it, saves made by all shards together.

leader   word: go on? save? visits allowed -- one word to all, before every wave
others   ask: to save, because memory is full; report whether the last save is done
"""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import numpy as np

from ...evaluators.lines import LINE_PLIES
from ...graph import arena_kernel
from ...graph.graph import Graph, Note
from ...graph.saving import flush_nodes
from ...position.board import (
    NOT_TERMINAL,
    fen_of,
    game_before,
    history_keys,
    legal_moves,
    pack,
    terminal_kind,
)
from ...store.record.node import NodeRecord
from ...store.store import Store
from ...store.tables import history
from ...workers.process import peak_rss
from .. import param_layout as layout
from ..forced import ForcedVisits
from ..loop import (
    COPY_BYTES,
    FIRST_FLUSH_SECONDS,
    FLUSH_GROWTH,
    FLUSH_SECONDS,
    IDLE_VISITS,
    IDLE_VISITS_PER_NODE,
    LOAD_SECONDS,
    MERGE_BYTES,
    RESERVED_PARTS,
    moves_of_tables,
)
from ..settings import set_listed, set_params
from . import descent_kernel
from . import messages_kernel as m
from .job import Progress, SearchJob, ShardReport
from .memory import Gathered
from .saved_waves import Save, newest_age, note_save
from .shard_context import ShardContext
from .talk import Talk
from .wave import ShardWaves

STOP, SAVE, KNOWN, LANDS = 1, 2, 4, 8  # bits of the leader's word; above them the visits allowed
ALLOWED_SHIFT = 8
WANTS_SAVE, SAVES, IS_HELD = 1, 1 << 16, 1 << 32  # requests of shards: each kind is counted
COUNT = (1 << 16) - 1
PROGRESS_SECONDS = 0.3
SHARDS_BATCH = 256  # of several shards by default: every wave is a round of messages


class ShardSearch:
    """One shard's part of a search.

    Attributes:
      progress: set by the leader, now and then; None before that.
    """

    def __init__(self, graph: Graph, job: SearchJob, place: ShardContext, stop: threading.Event) -> None:
        """Prepares a search; `stop` ends it if it is the leader's."""
        self.progress: Progress | None = None
        self._graph, self._job, self._place, self._stop = graph, job, place, stop
        self._board = job.board()
        self._root = pack(self._board)
        self._past = history_keys(self._board)
        self._arena = graph.arena
        alone = place.shards == 1
        params = job.params.with_batch(graph.evaluator.batch_size if alone else SHARDS_BATCH)
        set_params(self._arena, params)
        game = game_before(self._board, LINE_PLIES - 1) if graph.evaluator.wants_lines else ()
        self._batch = params.minibatch_size
        overlap = bool(params.overlap)
        self._waves = ShardWaves(graph, self._root, self._batch, place, overlap=overlap, game=game)
        self._flying: Gathered | None = None
        self._forced: ForcedVisits | None = None
        self._catches_up, self._passed_over = False, 0  # with forced visits, at the beginning: how many
        self._root_record: NodeRecord | None = None  # with them, at the end
        self._started, self._cpu = time.monotonic(), time.process_time()
        self._shown = self._last_save = self._started
        self._save_seconds = job.save_seconds or FIRST_FLUSH_SECONDS
        self._before = self._arena.counters.copy()
        self._saved_before, self._read_before = graph.saved_nodes, graph.pager.read_back
        self._evaluations = 0  # of all shards
        self._found_at = (0, 0)  # evaluations, and visits when there were last any
        self._asked = 0  # by all shards, when the leader last spoke
        self._is_over = terminal_kind(self._board) != NOT_TERMINAL
        self._reason = ""
        self._flush_nodes = flush_nodes(graph.pager.budget)
        self._save, self._saved_age = Save(number=job.save), 0
        if graph.store:
            self._saved_age = newest_age(graph.store)
            self._arena.reserve_log(2 * self._flush_nodes, spare=self._waves.most_nodes)
            wanted = COPY_BYTES * self._flush_nodes + MERGE_BYTES
            graph.pager.reserved = min(wanted, graph.pager.budget // RESERVED_PARTS)

    # ---------------------------------------------------------- the search
    def talk(self) -> Talk[ShardReport]:
        """Runs the search, in step with the other shards; returns this shard's report."""
        with self._graph.searching:
            try:
                yield from self._begin()
                yield from self._loop()
                self._root_record = self._forced.record() if self._forced else None
                yield from self._save_all()
                self._graph.merge_up_to(None)
            finally:
                self._end()
        return self._report()

    def _begin(self) -> Talk[None]:
        graph = self._graph
        graph.begin_search(self._board, lists=self._place.leads and self._job.lists)
        graph.merge_up_to(self._saved_age)
        self._arena.set_history(self._past)
        self._arena.counters[arena_kernel.SELDEPTH] = 0
        if graph.store:
            graph.call(self._begin_run)
        self._arena.set_run(self._job.run)
        yield from self._waves.say()  # all are there

    def _begin_run(self, store: Store) -> None:
        job = self._job
        limits, params = job.limits.as_dict(), job.params.as_dict()
        store.begin_run(fen_of(self._board), limits, params, number=job.run)

    def _loop(self) -> Talk[None]:
        while True:
            word = self._word() if self._place.leads else 0
            word = yield from self._waves.agree(word, asks=self._asks())
            self._asked = self._waves.total(m.H_MORE)
            if not self._asked & (COUNT * SAVES):
                self._graph.merge_up_to(self._saved_age)
            if word & STOP:
                return
            if word & LANDS:
                yield from self._land(None)
                continue
            if word & SAVE:
                yield from self._begin_save()
            self._read_on()
            yield from self._wave(word >> ALLOWED_SHIFT, knows_root=bool(word & KNOWN))
            if self._place.leads:
                self._pass_over()
                self._restrict(bool(word & KNOWN))
                self._show()

    def _read_on(self) -> None:
        """Reads on in the file, if much of it is asked for; in the first half of the time there is."""
        limit = self._job.limits.seconds
        if limit is None or time.monotonic() - self._started < limit / 2:
            self._graph.load_some(LOAD_SECONDS)

    def _wave(self, allowed: int, *, knows_root: bool) -> Talk[None]:
        """Gathers a wave, and completes the one in flight before it; or this one, if waves do not overlap."""
        flying = self._flying
        then = yield from self._waves.gather(self._batch, allowed, knows_root=knows_root, behind=flying)
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
        if not self._job.searchmoves or knew_root:
            return
        record = self._graph.read(self._board)
        assert record is not None, "the first wave records the root"
        moves = legal_moves(self._board)
        listed = [k for k, i in enumerate(record.order) if moves[i].uci() in self._job.searchmoves]
        set_listed(self._arena, listed)
        of_tables = {move.uci() for move in moves_of_tables(self._graph, self._board)}
        if len(listed) < len(moves) and set(self._job.searchmoves) != of_tables:
            self._forced = ForcedVisits(self._graph, self._board)
            self._catches_up = True

    def _pass_over(self) -> None:
        """Excludes the forced visits of an earlier search of the same moves from the limits.

        Until its first leaf a search of some moves only catches up with known children.
        """
        if self._forced and self._catches_up:
            free = self._forced.unproven - self._passed_over
            self._passed_over += free
            self._before[arena_kernel.VISITS] += free

    # ---------------------------------------------------------- the leader's word
    def _word(self) -> int:
        """Returns the word before the next wave."""
        arena = self._arena
        self._bring_root()
        knows, allowed, is_decided = descent_kernel.root_state(arena.tables, arena.arrays, self._root)
        flying, is_due = self._flying, self._is_save_due()
        if self._is_finished(bool(knows), bool(is_decided)):
            return LANDS if flying else STOP
        if flying:
            allowed -= self._waves.in_flight(flying)
            if is_due or allowed < self._batch:
                return LANDS  # no full batch: with nothing in flight before it, it will be a larger one
        word = (int(allowed) << ALLOWED_SHIFT) | (KNOWN if knows else 0)
        return word | SAVE if is_due else word

    def _bring_root(self) -> None:
        """Pages the root's record in: whether it is known decides the kind of wave."""
        self._graph.pager.read_all([self._board])
        restricts = self._job.searchmoves and not self._arena.arrays.ints[layout.RESTRICTED]
        if restricts and self._graph.read(self._board) is not None:
            self._restrict(False)

    def _is_finished(self, knows_root: bool, is_decided: bool) -> bool:
        """Returns whether the search ends, and stores why; the root is evaluated whatever the limits."""
        if not knows_root:
            return False
        limits, visits = self._job.limits, self._added(arena_kernel.VISITS)
        visits += self._waves.in_flight(self._flying) if self._flying else 0
        self._reason = ""  # the wave in flight may complete fewer visits than it has asked for
        if limits.visits is not None and visits >= limits.visits:
            self._reason = "visits"
        elif limits.evaluations is not None and self._evaluations >= limits.evaluations:
            self._reason = "evaluations"
        elif limits.seconds is not None and time.monotonic() - self._started >= limits.seconds:
            self._reason = "time"
        elif self._stop.is_set():
            self._reason = "stop"
        elif self._asked // IS_HELD:
            self._reason = "reader"
        elif self._is_over:
            self._reason = "finished"
        elif is_decided:
            self._reason = "proven"
        elif self._is_exhausted(visits + self._passed_over):
            self._reason = "exhausted"
        return bool(self._reason)

    def _is_exhausted(self, visits: int) -> bool:
        """Returns whether so many visits in a row found nothing to evaluate that no more will."""
        if self._evaluations != self._found_at[0]:
            self._found_at = self._evaluations, visits
        idle = visits - self._found_at[1]
        return idle > IDLE_VISITS and idle > IDLE_VISITS_PER_NODE * self._waves.total(m.H_NODES)

    def _is_save_due(self) -> bool:
        """Returns whether all shards should save: one has to, or it is due, and the last save is done."""
        now = time.monotonic()
        if self._asked & (COUNT * SAVES):
            return False
        if not self._asked & COUNT and now - self._last_save < self._save_seconds:
            return False
        return self._graph.store is not None

    # ---------------------------------------------------------- saving
    def _asks(self) -> int:
        """Returns the requests of this shard to the leader."""
        graph, dirty = self._graph, self._arena.dirty_count
        if graph.store is None:
            return 0
        is_settled = graph.settle(wait=dirty > 2 * self._flush_nodes)
        asks = WANTS_SAVE if dirty >= self._flush_nodes else 0
        return asks + (0 if is_settled else SAVES) + (IS_HELD if graph.log_held else 0)

    def _begin_save(self) -> Talk[None]:
        self._last_save = time.monotonic()
        if self._job.save_seconds is None:
            self._save_seconds = min(FLUSH_GROWTH * self._save_seconds, FLUSH_SECONDS)
        note = yield from self._noted(finished=False)
        self._graph.settle(wait=True)
        self._graph.begin_saving(note)

    def _save_all(self) -> Talk[None]:
        """Saves everything, and the end of the search; returns when all shards have."""
        note = yield from self._noted(finished=True)
        if self._graph.store:
            self._graph.flush(note)
            lost = self._graph.store.left_out_error()
            if lost:
                raise lost
        yield from self._waves.say()

    def _noted(self, *, finished: bool) -> Talk[Note]:
        """Returns a callback that writes the leader's state of the search with the save."""
        job = self._job
        visits = yield from self._waves.agree(self._added(arena_kernel.VISITS))
        return self._note(
            Save(
                number=self._save.number + 1,
                run=job.run,
                visits=job.visits + visits,
                evaluations=job.evaluations + self._evaluations,
            ),
            finished=finished,
        )

    def _note(self, save: Save, *, finished: bool) -> Note:
        self._save = save
        is_told = self._place.leads and self._job.lists
        values = self._graph.root_values(self._board) if is_told else None

        def note(store: Store) -> None:
            update = store.finish_run if finished else store.update_run
            update(save.run, save.visits, save.evaluations)
            if values:
                history.write(store, save.run, values)
            note_save(store, save)
            self._saved_age = newest_age(store)

        return note

    # ---------------------------------------------------------- failure
    def known(self) -> Save:
        """Returns its last save, with this shard's counts: visits if it leads."""
        visits, evaluations = self._added(arena_kernel.VISITS), self._added(arena_kernel.EVALUATIONS)
        return replace(self._save, visits=visits, evaluations=evaluations)

    def keep(self, save: Save) -> None:
        """Saves this shard's results when all have ended between two steps: every record is complete then.

        Edges behind their children catch up, as everywhere.
        """
        self._graph.flush(self._note(save, finished=True))

    def _end(self) -> None:
        """Takes back the visits that no file holds."""
        self._waves.close(self._flying)
        set_listed(self._arena, None)
        self._arena.take_back_overlay()
        self._arena.forget_overlay()
        if self._forced:
            self._forced.end()
        self._arena.set_history(np.zeros(0, np.uint64))

    # ---------------------------------------------------------- reports
    def _added(self, counter: int) -> int:
        return int(self._arena.counters[counter] - self._before[counter])

    def _show(self) -> None:
        now = time.monotonic()
        if now - self._shown < PROGRESS_SECONDS:
            return
        self._shown = now
        visits = self._added(arena_kernel.VISITS)
        self.progress = Progress(
            visits=visits,
            evaluations=self._evaluations,
            nodes=self._waves.total(m.H_NODES),
            depth=self._added(arena_kernel.PLIES) // max(visits, 1),
            seldepth=int(self._arena.counters[arena_kernel.SELDEPTH]),
            seconds=now - self._started,
            record=self._graph.read(self._board),
        )

    def _report(self) -> ShardReport:
        return ShardReport(
            number=self._place.number,
            leads=self._place.leads,
            visits=self._added(arena_kernel.VISITS),
            evaluations=self._added(arena_kernel.EVALUATIONS),
            catch_ups=self._added(arena_kernel.CATCH_UPS),
            collisions=self._added(arena_kernel.COLLISIONS),
            unkept=self._added(arena_kernel.HISTORY_DRAWS),
            plies=self._added(arena_kernel.PLIES),
            seldepth=int(self._arena.counters[arena_kernel.SELDEPTH]),
            nodes=self._graph.node_count,
            saved=self._graph.saved_nodes - self._saved_before,
            read_back=self._graph.pager.read_back - self._read_before,
            stop_reason=self._reason,
            seconds=time.monotonic() - self._started,
            cpu_seconds=time.process_time() - self._cpu,
            peak_rss=peak_rss(),
            problems=self._graph.problems,
            traffic=self._waves.traffic,
            root=self._root_record,
        )
