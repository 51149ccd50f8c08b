"""One shard's part of a wave: down level by level, leaves evaluated by their owners, values back up.

descend   pass the level on | messages | pass the next one on | messages | ... until no shard has any more
admit     all candidates if they fit, else the best of all shards: their keys go to the leader
settle    visits without an evaluation go up, level by level
evaluate  each shard its own leaves
ascend    level by level

Kernels go from level to level and exchange messages with other shards' kernels. They return when they have to
wait, or need Python, and are called again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...base.errors import CapacityError, GraphSearchError, ShardLostError
from ...evaluators.batch_kernel import END
from ...graph.graph import Graph
from ...jit.calls import Bound
from ...jit.compiler import Call
from .. import wave_kernel as wave
from ..gatherers.flow_kernel import MAX_ROUNDS, next_budget
from ..leaves import LeafEvaluation
from ..waves import BYTES_PER_LEAF, FIRST_EVALUATOR
from . import ascent_kernel, connections_kernel, descent_kernel
from . import messages_kernel as m
from .memory import GHOST_BYTES, Gathered, ShardContext, Tally, new_arrays, with_ghosts
from .mesh import Talk
from .part import Traffic

MOST_WORDS = 1 << 27  # of a message: 1 GB
NOTHING = Bound(0, np.zeros(2, np.int64))  # evaluates nothing


class ShardWaves:
    """One shard's part of the waves of one root."""

    def __init__(
        self,
        graph: Graph,
        root: NDArray[np.uint64],
        batch: int,
        place: ShardContext,
        *,
        overlap: bool = False,
        game: Sequence[NDArray[np.uint64]] = (),
    ) -> None:
        """Makes the working memory for waves of up to `batch` leaves; `root` is a packed position.

        Args:
          overlap: gather the next wave while one is being evaluated, where that pays.
          game: packed positions before the root, the latest first, for an evaluator that wants lines.
        """
        self._graph = graph
        self._arena = graph.arena
        self._evaluator = graph.store.evaluator_number if graph.store else FIRST_EVALUATOR
        self._batch = batch
        self._place = place
        self._leaves = LeafEvaluation(graph.evaluator, game)
        self._overlap = overlap
        self.wave = with_ghosts(wave.new_wave(batch))
        self._nothing = wave.new_wave(1)
        self._before = self._nothing  # in flight before the wave
        self._spare: tuple[wave.WaveArrays, NDArray[np.int64]] | None = (
            None  # of a second wave, and its heads
        )
        self._most_entries = 0
        self._arrays = new_arrays(place, root, len(self.wave.candidates))
        self._counts = self._arrays.counts
        self._counts[m.TRAIL] = m.WHOLE if graph.evaluator.wants_lines else m.KEY_ONLY
        self._tally = Tally(self._arrays.tallies)
        self._evaluating = NOTHING  # the leaves to evaluate while waiting for others
        self._calls: dict[tuple[Callable[..., Any], int], Call] = {}
        self._bound: tuple[Any, ...] = (None,) * 6

    def close(self, gathered: Gathered | None = None) -> None:
        """Drops the wave in flight, and ends the thread of an evaluator outside the kernels."""
        self._leaves.close(gathered.answer if gathered else None)
        self._graph.pager.under_way = ()

    @property
    def traffic(self) -> Traffic:
        """Messages sent, and how the time was spent."""
        return self._tally.traffic

    @property
    def overlaps(self) -> bool:
        """Whether a wave is gathered while another one is evaluated: as in a search of one process."""
        return self._overlap and self._leaves.may_overlap(self._batch)

    # ---------------------------------------------------------- one wave
    def gather(
        self, target: int, allowed: int, *, knows_root: bool, behind: Gathered | None = None
    ) -> Talk[Gathered]:
        """Gathers a wave, which `land` completes.

        Args:
          target: leaves of the batch.
          allowed: most visits that the wave may ask for.
          knows_root: whether the root has a record; else it is the only leaf.
          behind: a wave that is being evaluated meanwhile.
        """
        if behind:
            self._send_off(behind)
            self._switch_waves(behind)
        self._begin(target)
        found = Gathered(self.wave, self._arrays.heads)
        for _ in range(MAX_ROUNDS if knows_root and target > 1 else 1):
            budget = next_budget(found.asked, found.leaves, target, allowed) if knows_root else 1
            if budget <= 0 or found.leaves >= target:
                break
            found.asked += budget
            found.depth = max(found.depth, (yield from self._round(budget, target)))
            found.leaves = self.total(m.H_LEAVES)
            if behind is None:
                self._fill_gaps(self.wave)
            if self.total(m.H_FULL):
                break
        found.wave = self.wave
        self._most_entries = max(self._most_entries, int(self.wave.counts[wave.ENTRIES]))
        return found

    def land(self, gathered: Gathered, then: Gathered | None = None) -> Talk[int]:
        """Completes a gathered wave; returns its visits at the leader, elsewhere 0.

        Args:
          then: the wave that was gathered behind it.
        """
        with self._tally.phase("evaluating"):
            self._evaluate(gathered)
        self.wave, self._before = gathered.wave, self._nothing
        if self._arrays.heads is not gathered.heads:
            self._arrays = self._arrays._replace(heads=gathered.heads)
        self._graph.pager.under_way = (wave.slots_of(then.wave),) if then else ()
        self._fill_gaps(then.wave if then else None)
        if gathered.leaves:
            with self._tally.phase("backing"):
                yield from self._ascend(gathered.depth, 0, settles=False)
        return int(ascent_kernel.end_wave(self._arena.arrays, self.wave))

    def _round(self, budget: int, target: int) -> Talk[int]:
        """Runs one round; returns its deepest level. `total` then has the sums of all shards."""
        first = int(self.wave.counts[wave.ENTRIES])
        with self._tally.phase("passing"):
            depth = yield from self._descend(budget)
        ended = self.total(m.H_ENDED)
        with self._tally.phase("admitting"):
            yield from self._admit(target)
            if not (ended and depth):  # else the backup reports it
                yield from self.exchange_headers()
        if ended or self.total(m.H_ENDED):
            with self._tally.phase("backing"):
                yield from self._ascend(depth, first, settles=True)
        self._call(ascent_kernel.end_round)
        return depth

    @property
    def most_nodes(self) -> int:
        """The most nodes that the waves under way may create or change."""
        return (1 + self.overlaps) * wave.entries_for(self._batch)

    def in_flight(self, gathered: Gathered) -> int:
        """Returns the visits of a gathered wave that are not completed; for the leader."""
        return gathered.asked - int(gathered.wave.counts[wave.EARLY])

    def _begin(self, target: int) -> None:
        """Empties the wave, and makes room for it."""
        self._counts[m.GHOSTS] = len(self.wave.candidates)
        self._counts[m.PLACES] = len(self.wave.entries) // wave.ENTRY_WORDS
        waves = 2 if self._spare else 1
        of_wave = sum(array.nbytes for array in self.wave) - GHOST_BYTES * len(self.wave.candidates)
        self._graph.pager.working = waves * of_wave * self._most_entries // len(self.wave.candidates)
        for times in (1, 2):
            self._graph.make_room(times * self.most_nodes, target * BYTES_PER_LEAF)
            if descent_kernel.begin(self._arena.arrays, self.wave, self._before, self._arrays, target):
                break
        else:
            size = self._arena.max_bytes >> 20
            raise CapacityError(
                f"{size} MiB are not enough for one wave of {self._batch:,} leaves with its shard's"
                f" {self._graph.node_count:,} nodes; use a smaller batch or more memory"
            )
        self._counts[m.NODES] = self._graph.node_count
        if self._leaves.is_here:
            self._leaves.filler(self.wave).call.bound.words[END] = 0
        if self._before is self._nothing:
            self._fill_gaps(None)

    def _switch_waves(self, flying: Gathered) -> None:
        """Takes the memory of the other wave for the next one; `flying` is in flight before it."""
        if self._spare is None:
            self._spare = with_ghosts(wave.new_wave(self._batch)), np.full_like(self._arrays.heads, -1)
        self.wave, heads = self._spare
        self._arrays = self._arrays._replace(heads=heads)
        self._spare = flying.wave, flying.heads
        self._before = flying.wave
        self._graph.pager.under_way = (wave.slots_of(flying.wave),)

    # ---------------------------------------------------------- leaves evaluated
    def _send_off(self, gathered: Gathered) -> None:
        """Evaluates a gathered wave in other threads, or here while waiting for others."""
        leaves = int(gathered.wave.counts[wave.LEAVES])
        if self._leaves.is_here:
            self._fill_gaps(gathered.wave)
        elif leaves and gathered.answer is None:
            gathered.answer = self._leaves.begin(gathered.wave, leaves)

    def _fill_gaps(self, w: wave.WaveArrays | None) -> None:
        """Evaluates the present leaves of a wave while waiting for others."""
        is_here = w is not None and self._leaves.is_here
        self._evaluating = self._leaves.filler(w).call.bound if w and is_here else NOTHING
        self._counts[m.READY] = w.counts[wave.LEAVES] if w and is_here else 0

    def _evaluate(self, gathered: Gathered) -> None:
        """Evaluates the rest of this shard's leaves of a wave, and makes records of all."""
        w = gathered.wave
        leaves = int(w.counts[wave.LEAVES])
        if gathered.answer:
            self._leaves.receive(gathered.answer)
        elif leaves and self._leaves.is_here:
            self._leaves.finish(w, leaves)
        elif leaves:
            self._leaves.evaluate(w, leaves)
        arena = self._arena
        ascent_kernel.make_records(arena.tables, arena.arrays, w, self._evaluator)

    # ---------------------------------------------------------- down, and up
    def _descend(self, budget: int) -> Talk[int]:
        """Sends a round's visits down; returns its deepest level."""
        self._counts[m.BUDGET] = budget
        self._call(descent_kernel.begin_round)
        yield from self._go_through(descent_kernel.descend)
        return int(self._counts[m.LEVEL])

    def _ascend(self, depth: int, first: int, *, settles: bool) -> Talk[None]:
        """Backs visits up, from below the deepest level, where only path draws are, to the root."""
        self._counts[[m.LEVEL, m.FIRST, m.SETTLES, m.STAGE]] = depth + 1, first, settles, m.APPLIES
        yield from self._go_through(ascent_kernel.ascend)

    # ---------------------------------------------------------- leaves
    def _admit(self, target: int) -> Talk[None]:
        """Makes leaves of the candidates, those with most visits first."""
        n, leaves = int(self.wave.counts[wave.CANDIDATES]), self.total(m.H_LEAVES)
        all_of_them = self.total(m.H_CANDIDATES)
        if leaves + all_of_them <= target:
            self._admit_part(0, n, is_open=True)
        else:
            yield from self._admit_best(n, leaves, all_of_them, target)

    def _admit_best(self, n: int, leaves: int, all_of_them: int, target: int) -> Talk[None]:
        """Admits the best candidates of all shards until the batch is full; the leader sets the last key."""
        order = np.argsort(-self.wave.candidates[:n])
        keys = self.wave.candidates[:n] = self.wave.candidates[:n][order]
        self._arrays.candidates[:n] = self._arrays.candidates[:n][order]
        yield from self.exchange_headers(keys=n)
        known = self.keys_of_all(keys) if self._place.leads else keys
        done = looked_at = 0
        while leaves < target and looked_at < all_of_them:
            looked_at = min(looked_at + target - leaves, all_of_them)
            cut = yield from self.agree(int(known[looked_at - 1]) if self._place.leads else 0)
            end = int(np.searchsorted(-keys, -cut, side="right"))
            self._admit_part(done, end, is_open=True)
            done = end
            yield from self.exchange_headers()
            leaves = self.total(m.H_LEAVES)
        self._admit_part(done, n, is_open=False)

    def _admit_part(self, begin: int, end: int, *, is_open: bool) -> None:
        self._counts[[m.BEGIN, m.END, m.IS_OPEN]] = begin, end, is_open
        self._call(descent_kernel.admit_part)

    # ---------------------------------------------------------- messages
    def total(self, of: int) -> int:
        """Returns the sum of a word over the headers of the last messages; `of`: the word."""
        return int(self._counts[m.TOTALS + of])

    def agree(self, number: int, *, asks: int = 0) -> Talk[int]:
        """Returns the leader's number.

        Args:
          asks: a number of this shard; afterwards `total(H_MORE)` is the sum over all shards.
        """
        self._counts[m.WORD] = number if self._place.leads else 0
        yield from self.exchange_headers(asks)
        self._counts[m.WORD] = 0
        return self.total(m.H_WORD)

    def exchange_headers(self, asks: int = 0, *, keys: int = 0) -> Talk[None]:
        """Exchanges headers.

        Args:
          asks: a number of this shard. keys: number of its first candidates' keys for the leader.
        """
        self._counts[[m.STAGE, m.MORE, m.KEYS]] = m.WRITES, asks, keys
        yield from self._go_through(connections_kernel.exchange_headers)

    def keys_of_all(self, own: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the keys sent to the leader, and its own, the largest first."""
        room, boxes = int(self._counts[m.IN_ROOM]), self._arrays.inbox
        parts = [own]
        for begin in (k * room for k in range(self._place.shards) if k != self._place.number):
            words = int(boxes[begin + m.H_STEP]) >> m.STEP_BITS
            parts.append(boxes[begin + m.HEADER_WORDS :][:words].view(np.int64))
        return -np.sort(-np.concatenate(parts))

    # ---------------------------------------------------------- kernels
    def _go_through(self, kernel: Callable[..., Any]) -> Talk[None]:
        """Calls a kernel until it is through, and serves its requests."""
        while code := self._call(kernel):
            if code == m.WAITS:
                yield
            else:
                self._serve(code)

    def _serve(self, code: int) -> None:
        """Serves a kernel's request: makes room, or reads records."""
        wanted = int(self._counts[m.WANTED])
        if code == m.OUT_IS_SMALL:
            self._grow("out", m.OUT_ROOM, wanted)
        elif code == m.INBOX_IS_SMALL:
            if wanted > MOST_WORDS:
                raise ShardLostError(f"shard {self._counts[m.PEER]} is lost: it sends {wanted} words at once")
            self._grow("inbox", m.IN_ROOM, wanted)
        elif code == m.NO_GHOSTS:
            self.wave = with_ghosts(self.wave, 2 * (wanted - len(self.wave.candidates)))
            self._counts[m.PLACES] = len(self.wave.entries) // wave.ENTRY_WORDS
        elif code == m.NO_NOTES:
            self._arena.reserve_overlay(wanted)
        elif code == m.NO_RECORDS:
            self._graph.pager.bring(wave.missing_positions(self.wave), wave.slots_of(self.wave))
        elif code == m.OUT_OF_STEP:
            raise GraphSearchError(
                f"shard {self._out_of_step()} sent a message that is not of step {self._counts[m.STEP]}"
            )
        else:
            raise ShardLostError(f"shard {self._counts[m.PEER]} is lost: it has closed the connection")

    def _out_of_step(self) -> int:
        """Returns the first shard whose last message is not of this step."""
        heads = self._arrays.inbox.reshape(self._place.shards, -1)[:, m.H_STEP]
        others = (k for k in range(self._place.shards) if k != self._place.number)
        return next(k for k in others if (int(heads[k]) ^ int(self._counts[m.STEP])) & m.STEP_MASK)

    def _grow(self, name: str, room: int, wanted: int) -> None:
        """Makes room for messages of `wanted` words in an array that has a part for each shard."""
        old = getattr(self._arrays, name).reshape(self._place.shards, -1)
        try:
            new = np.zeros((self._place.shards, 2 * wanted), np.uint64)
        except MemoryError:
            raise CapacityError(f"no memory for messages of {wanted:,} words") from None
        new[:, : old.shape[1]] = old
        self._arrays = self._arrays._replace(**{name: new.reshape(-1)})  # type: ignore[arg-type]
        self._counts[room] = 2 * wanted

    def _call(self, kernel: Callable[..., Any]) -> int:
        """Calls a kernel on this shard's arrays; returns `CODE`."""
        arena = self._arena
        bound = arena.tables, arena.arrays, self.wave, self._before, self._graph.pager.filter(), self._arrays
        if any(a is not b for a, b in zip(bound, self._bound, strict=True)):
            self._calls.clear()
            self._bound = bound
        which = kernel, id(self._evaluating)
        call = self._calls.get(which)
        if call is None:
            call = self._calls[which] = Call(kernel, *bound, self._evaluating)
        call()
        return int(self._counts[m.CODE])
