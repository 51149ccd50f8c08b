"""One shard's part of a wave: down level by level, leaves evaluated where they lie, values back.

descend   pass the level on | messages | pass the next one on | messages | ... until no shard has any more
admit     all candidates if they fit, else the best of all shards: their keys go to the leader
settle    what needed no evaluation goes up, level by level
evaluate  each shard its own leaves
ascend    level by level
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import CapacityError, GraphSearchError
from ..graph.graph import Graph
from ..jit.compiler import Call
from ..search import wave_kernel as wave
from ..search.leaves import LeafEvaluation
from ..search.rounds import MAX_ROUNDS, next_budget
from ..search.waves import BYTES_PER_LEAF, FIRST_EVALUATOR
from ..store.sharded.ownership import Owners
from . import ascent_kernel, descent_kernel
from . import messages_kernel as m
from .messages_kernel import ShardArrays
from .talk import Message, Talk
from .traffic import Traffic

FIRST_WORDS = 1 << 12  # of messages, at first
GHOSTS_PER_ENTRY = 4  # untouched pages cost nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Which shard this is, of how many, who owns what, and who leads: the shard that owns the root."""

    number: int
    shards: int
    owners: Owners
    leader: int

    @property
    def leads(self) -> bool:
        """Whether this shard owns the root."""
        return self.number == self.leader


class ShardWaves:
    """Waves of one root, as far as one shard goes through them.

    Attributes:
      traffic: what was sent, and where the time went.
    """

    def __init__(
        self,
        graph: Graph,
        root: NDArray[np.uint64],
        batch: int,
        place: Place,
        *,
        game: Sequence[NDArray[np.uint64]] = (),
    ) -> None:
        """Makes the working memory for waves of up to `batch` leaves; `root` is a packed position.

        Args:
          game: packed positions before the root, the latest first, for an evaluator that wants lines.
        """
        self.traffic = Traffic()
        self._graph = graph
        self._arena = graph.arena
        self._evaluator = graph.store.evaluator_number if graph.store else FIRST_EVALUATOR
        self._root = root
        self._batch = batch
        self._place = place
        self._leaves = LeafEvaluation(graph.evaluator, game)
        plain = wave.new_wave(batch)
        self.wave = _with_ghosts(plain, GHOSTS_PER_ENTRY * len(plain.candidates))
        self._bytes = int(sum(array.nbytes for array in plain))
        self._most_entries = 0
        self._arrays = _new_arrays(place, len(plain.candidates))
        self._counts = self._arrays.counts
        self._counts[m.TRAIL] = m.WHOLE if graph.evaluator.wants_lines else m.KEY_ONLY
        self._calls: dict[str, Call] = {}
        self._bound: tuple[Any, ...] = ()

    def close(self) -> None:
        """Ends the thread of an evaluator outside the kernels."""
        self._leaves.close(None)

    def compile_rest(self) -> None:
        """Compiles what is hardly ever called: for messages that did not fit, and to read from files."""
        arena, w = self._arena, self.wave
        self._counts[m.LEVEL] = 1
        descent_kernel.pack(arena.arrays, w, self._arrays)
        ascent_kernel.tell(arena.arrays, w, self._arrays)
        self._counts[m.ORDERED] = 0
        descent_kernel.probe(arena.tables, arena.arrays, w, self._graph.pager.filter(), self._arrays)
        ascent_kernel.count_unkept(self._arrays)

    # ---------------------------------------------------------- one wave
    def run(self, target: int, allowed: int, *, knows_root: bool) -> Talk[tuple[int, int]]:
        """Goes through one wave; returns (visits completed, evaluations of all shards).

        The visits are known to the shard that owns the root; elsewhere 0.

        Args:
          target: leaves of the batch.
          allowed: most visits that the wave may ask for.
          knows_root: whether the root has a record; else it is the only leaf.
        """
        self._begin(target)
        asked = leaves = deepest = 0
        for _ in range(MAX_ROUNDS if knows_root and target > 1 else 1):
            budget = next_budget(asked, leaves, target, allowed) if knows_root else 1
            if budget <= 0 or leaves >= target:
                break
            asked += budget
            first = int(self.wave.counts[wave.ENTRIES])
            with self.traffic.phase("passing"):
                depth = yield from self._descend(budget)
            with self.traffic.phase("admitting"):
                yield from self._admit(target)
            deepest, leaves, is_full = max(deepest, depth), self.total(m.H_LEAVES), self.total(m.H_FULL)
            if self.total(m.H_ENDED):
                with self.traffic.phase("backing"):
                    yield from self._ascend(depth, first, settles=True)
            ascent_kernel.end_round(self._arena.arrays, self.wave, self._place.leads)
            if is_full:
                break
        with self.traffic.phase("evaluating"):
            self._evaluate()
        if leaves:
            with self.traffic.phase("backing"):
                yield from self._ascend(deepest, 0, settles=False)
        return int(ascent_kernel.end_wave(self._arena.arrays, self.wave)), leaves

    @property
    def most_nodes(self) -> int:
        """The most nodes that a wave may make or change."""
        return wave.ENTRIES_PER_LEAF * self._batch + wave.SPARE_ENTRIES

    def _begin(self, target: int) -> None:
        entries = self.most_nodes
        self._counts[m.GHOSTS] = len(self.wave.candidates)
        self._graph.pager.working = self._bytes * self._most_entries // len(self.wave.candidates)
        self._graph.make_room(entries, target * BYTES_PER_LEAF)
        if not descent_kernel.begin(self._arena.arrays, self.wave, self._arrays, target):
            self._graph.make_room(2 * entries, target * BYTES_PER_LEAF)
            if not descent_kernel.begin(self._arena.arrays, self.wave, self._arrays, target):
                raise CapacityError(f"cannot get more memory for a shard of {self._graph.node_count} nodes")
        self._counts[m.NODES] = self._graph.node_count

    def _evaluate(self) -> None:
        """Evaluates this shard's leaves, and makes records of them."""
        leaves = int(self.wave.counts[wave.LEAVES])
        self._most_entries = max(self._most_entries, int(self.wave.counts[wave.ENTRIES]))
        if leaves:
            self._leaves.evaluate(self.wave, leaves)
        arena = self._arena
        ascent_kernel.make_records(arena.tables, arena.arrays, self.wave, self._evaluator)

    # ---------------------------------------------------------- down
    def _descend(self, budget: int) -> Talk[int]:
        """Sends a round's visits down; returns its deepest level."""
        counts = self._counts
        counts[[m.ORDERED, m.LEVEL]] = 0
        self.wave.counts[wave.ROUND_BEGIN] = self.wave.counts[wave.ENTRIES]
        if self._place.leads:
            descent_kernel.begin_round(self.wave, self._arrays, self._root, budget)
        while True:
            self._read()
            self._write(descent_kernel.descend, descent_kernel.pack)
            self.traffic.rows += self._stubs()
            yield from self._talk()
            if not self.total(m.H_MORE):
                return int(counts[m.LEVEL])
            counts[m.LEVEL] += 1
            self._make_room_for_ghosts()
            self._call(descent_kernel.take_in, self.wave, self._arrays)

    def _stubs(self) -> int:
        """Returns how many entries of the next level are others' positions."""
        children = int(self.wave.counts[wave.ENTRIES] - self._counts[m.FIRST_CHILD])
        return max(0, children - int(self._counts[m.ORDERED]))

    def _read(self) -> None:
        """Has the records of a level read that are not in memory; notes what passes through."""
        n = int(self._counts[m.ORDERED])
        self.traffic.pass_on(self.wave, self._arrays.order[:n])
        pager, arena = self._graph.pager, self._arena
        self._counts[m.PROBED] = probes = not pager.complete
        if probes and n:
            filters = pager.filter()
            if descent_kernel.probe(arena.tables, arena.arrays, self.wave, filters, self._arrays):
                pager.bring(wave.missing_positions(self.wave), wave.slots_of(self.wave))

    def _make_room_for_ghosts(self) -> None:
        """Makes sure that as many ghosts have room as may come down: less than a word of a message each."""
        places = len(self.wave.entries) // wave.ENTRY_WORDS
        wanted = int(self._counts[m.GHOSTS] + self._arrays.begins[-1])
        if wanted > places:
            self.wave = _with_ghosts(self.wave, 2 * (wanted - len(self.wave.candidates)))

    # ---------------------------------------------------------- leaves
    def _admit(self, target: int) -> Talk[None]:
        """Makes leaves of the candidates, those with most visits first; all shards know then how many."""
        n, leaves, all_of_them = (
            int(self.wave.counts[wave.CANDIDATES]),
            self.total(m.H_LEAVES),
            self.total(m.H_CANDIDATES),
        )
        if leaves + all_of_them <= target:
            self._admit_part(0, n, is_open=True)
        else:
            yield from self._admit_best(n, leaves, all_of_them, target)
        yield from self.say()

    def _admit_best(self, n: int, leaves: int, all_of_them: int, target: int) -> Talk[None]:
        """Admits the best candidates of all shards until the batch is full.

        The leader says up to which key. Some of them become no leaves; then it says so again.
        """
        order = np.argsort(-self.wave.candidates[:n])
        keys = self.wave.candidates[:n][order]
        self._arrays.candidates[:n] = self._arrays.candidates[:n][order]
        inbox = yield from self._send_keys(keys)
        known = -np.sort(-np.concatenate([box[m.HEADER_WORDS :] for box in inbox]).view(np.int64))
        done = looked_at = 0
        while leaves < target and looked_at < all_of_them:
            looked_at = min(looked_at + target - leaves, all_of_them)
            cut = yield from self.agree(int(known[looked_at - 1]) if self._place.leads else 0)
            end = int(np.searchsorted(-keys, -cut, side="right"))
            self._admit_part(done, end, is_open=True)
            done = end
            yield from self.say()
            leaves = self.total(m.H_LEAVES)
        self._admit_part(done, n, is_open=False)

    def _send_keys(self, keys: NDArray[np.int64]) -> Talk[Sequence[Message]]:
        """Sends keys to the leader; returns the messages that came."""
        self._next_out()
        arguments = self._arena.arrays, self.wave, self._arrays, self._place.leader, keys
        descent_kernel.say_keys(*arguments)
        if not self._counts[m.FITS]:
            self._grow_out()
            descent_kernel.say_keys(self._arena.arrays, self.wave, self._arrays, *arguments[3:])
        return (yield from self._talk())

    def _admit_part(self, begin: int, end: int, *, is_open: bool) -> None:
        self._counts[[m.BEGIN, m.END, m.IS_OPEN]] = begin, end, is_open
        arena = self._arena
        self._call(descent_kernel.admit_part, arena.tables, arena.arrays, self.wave, self._arrays)

    # ---------------------------------------------------------- up
    def _ascend(self, depth: int, first: int, *, settles: bool) -> Talk[None]:
        """Backs visits up, from the deepest level to the root.

        Below that level there are only draws of the path, which ended at the shards that sent them.
        """
        arena = self._arena
        self._counts[[m.LEVEL, m.FIRST, m.SETTLES]] = depth + 1, first, settles
        while self._counts[m.LEVEL] > 1:
            self._write(ascent_kernel.ascend, ascent_kernel.tell)
            yield from self._talk()
            self._counts[m.LEVEL] -= 1
            if unkept := ascent_kernel.count_unkept(self._arrays) if self._arena.arrays.history.size else 0:
                arena.reserve_overlay(int(unkept) * wave.MAX_PLIES)
            self._call(ascent_kernel.hear, arena.arrays, self.wave, self._arrays)
        self._call(ascent_kernel.ascend, arena.tables, arena.arrays, self.wave, self._arrays)

    # ---------------------------------------------------------- messages
    def total(self, of: int) -> int:
        """Returns what the headers of the last messages say together; `of`: a word of a header."""
        return int(self._counts[m.TOTALS + of])

    def agree(self, number: int, *, asks: int = 0) -> Talk[int]:
        """Returns the number that the leader says.

        Args:
          asks: a number of this shard; `total(H_MORE)` is the sum of all then.
        """
        self._counts[m.WORD] = number if self._place.leads else 0
        yield from self.say(asks)
        self._counts[m.WORD] = 0
        return self.total(m.H_WORD)

    def say(self, asks: int = 0) -> Talk[None]:
        """Exchanges headers."""
        self._next_out()
        self._counts[m.MORE] = asks
        self._call(descent_kernel.say, self._arena.arrays, self.wave, self._arrays)
        yield from self._talk()

    def _write(self, kernel: Any, again: Any) -> None:
        """Calls a kernel that writes messages; if there was too little room, `again` with more."""
        arena = self._arena
        self._next_out()
        self._call(kernel, arena.tables, arena.arrays, self.wave, self._arrays)
        if not self._counts[m.FITS]:
            self._grow_out()
            again(arena.arrays, self.wave, self._arrays)

    def _next_out(self) -> None:
        """Takes the other half of the outbox: others may still read the last messages."""
        half = len(self._arrays.out) // 2
        begin = half - int(self._counts[m.OUT_BEGIN])
        self._counts[[m.OUT_BEGIN, m.OUT_END]] = begin, begin + half
        self._counts[m.STEP] += 1

    def _grow_out(self) -> None:
        """Makes room for the messages that did not fit."""
        half = 2 * int(self._arrays.sizes.sum() + m.HEADER_WORDS * self._place.shards)
        old = self._arrays.out  # others may read it: they keep it
        self._arrays = self._arrays._replace(out=np.zeros(2 * max(half, len(old) // 2), np.uint64))
        self._counts[[m.OUT_BEGIN, m.OUT_END]] = 0, half

    def _talk(self) -> Talk[Sequence[Message]]:
        """Exchanges the messages that were written; returns those that came, of which `inbox` is a copy."""
        out, own = self._arrays.out, self._place.number
        sizes = self._arrays.sizes.tolist()
        messages, at = [], int(self._counts[m.OUT_BEGIN])
        for size in sizes:
            messages.append(out[at : at + m.HEADER_WORDS + size])
            at += m.HEADER_WORDS + size
        self.traffic.send(sizes, own)
        began = time.perf_counter()
        inbox = yield messages
        self.traffic.waiting += time.perf_counter() - began
        self._keep(inbox)
        return inbox

    def _keep(self, inbox: Sequence[Message]) -> None:
        """Copies messages to where kernels read them, and adds their headers up."""
        ends = self._arrays.begins[1:]
        np.cumsum([len(box) for box in inbox], out=ends)
        if ends[-1] > len(self._arrays.inbox):
            self._arrays = self._arrays._replace(inbox=np.zeros(2 * int(ends[-1]), np.uint64))
        np.concatenate(inbox, out=self._arrays.inbox[: int(ends[-1])])
        self._call(m.add_headers, self._arrays)
        if self.total(m.H_STEP) != self._place.shards:
            raise GraphSearchError(f"shards are out of step with step {self._counts[m.STEP]} of this one")

    def _call(self, kernel: Callable[..., Any], *arguments: Any) -> None:
        """Calls a kernel whose arguments hardly ever change; what it returns is dropped."""
        bound = self._arena.arrays, self.wave, self._arrays
        if any(a is not b for a, b in zip(bound, self._bound, strict=False)) or not self._bound:
            self._calls.clear()
            self._bound = bound
        name = kernel.__name__
        call = self._calls.get(name)
        if call is None:
            call = self._calls[name] = Call(kernel, *arguments)
        call()


def _new_arrays(place: Place, entries: int) -> ShardArrays:
    counts = np.zeros(m.COUNTS, np.int64)
    counts[[m.OWN, m.SHARDS]] = place.number, place.shards
    return ShardArrays(
        owners=place.owners,
        order=np.empty(entries, np.int64),
        spare=np.empty(entries, np.int64),
        candidates=np.empty(entries, np.int64),
        sizes=np.zeros(place.shards, np.int64),
        places=np.zeros(place.shards, np.int64),
        heads=np.full(wave.MAX_PLIES + 2, -1, np.int64),
        begins=np.zeros(place.shards + 1, np.int64),
        inbox=np.zeros(FIRST_WORDS, np.uint64),
        out=np.zeros(2 * FIRST_WORDS, np.uint64),
        counts=counts,
    )


def _with_ghosts(w: wave.WaveArrays, ghosts: int) -> wave.WaveArrays:
    """Returns a wave with room for so many ghosts behind its entries."""
    entries = np.empty((len(w.candidates) + ghosts) * wave.ENTRY_WORDS, np.uint64)
    used = min(len(w.entries), len(entries)) if w.counts[wave.ENTRIES] else 0
    entries[:used] = w.entries[:used]
    return w._replace(entries=entries)
