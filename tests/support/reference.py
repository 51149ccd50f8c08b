"""A second, slow search to compare with: sequential PUCT over a dict of positions, in plain Python.

It shares with the package only the definitions of prior codes, keys and of what an edge says of a proof, and
rounds where records do.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain, pairwise
from pathlib import Path
from typing import NamedTuple

import chess
import numpy as np
from numpy.typing import NDArray

from graphsearch.evaluators.protocol import Evaluation, Evaluator, PositionBatch
from graphsearch.position import board as packed
from graphsearch.search.params import SearchParams
from graphsearch.store import record_kernel as proofs
from graphsearch.store.provenance import EvaluatorIdentity
from graphsearch.store.record import prior_codes, prior_order
from tests.support.positions import mate_in_one


class HashEvaluator(Evaluator):
    """Arbitrary but fixed answers for each name: V, D and priors from a hash of the position.

    Attributes:
      asked: EPD of every position, as often as it was asked about.
      fail_after: positions after which it fails, None for never.
      log: a file that gets them too, for a process that is killed.
    """

    identity = EvaluatorIdentity("hash")

    def __init__(self, name: str = "hash", *, fail_after: int | None = None, log: Path | None = None) -> None:
        self.name = name
        if name != "hash":
            self.identity = EvaluatorIdentity(name)
        self.fail_after = fail_after
        self.log = log
        self.asked: list[str] = []
        self.calls = 0

    @property
    def paid_once(self) -> bool:
        """Whether it was asked about some positions, and about none of them twice."""
        return 0 < len(self.asked) == len(set(self.asked))

    def evaluate(self, batch: PositionBatch) -> Evaluation:
        self.calls += 1
        answers = []
        for words, (begin, end) in zip(batch.words, pairwise(batch.offsets.tolist()), strict=True):
            answer = _hashed_answer(self.name, words.tobytes(), batch.moves[begin:end].tobytes())
            if self.fail_after is not None and len(self.asked) >= self.fail_after:
                raise RuntimeError("out of order")
            self.asked.append(answer.epd)
            answers.append(answer)
        if self.log:
            with self.log.open("a") as file:
                file.writelines(f"{answer.epd}\n" for answer in answers)
        wdl = [answer.wdl for answer in answers]
        priors = list(chain.from_iterable(answer.priors for answer in answers))
        return Evaluation(np.array(wdl, np.float32).reshape(-1, 3), np.array(priors, np.float32))


class Answer(NamedTuple):
    epd: str
    wdl: list[float]
    priors: list[float]


@lru_cache(1 << 14)  # tests ask about the same positions again and again, and python-chess takes its time
def _hashed_answer(name: str, words: bytes, codes: bytes) -> Answer:
    epd = packed.unpack(np.frombuffer(words, np.uint64).tolist()).epd()
    moves = [(code & 63, code >> 6 & 63, code >> 12) for code in np.frombuffer(codes, np.uint16).tolist()]
    if name == "hash":
        digest = hashlib.sha256(epd.encode()).digest()
        places = [(7 * origin + to + (kind + 1 if kind else 0)) % 29 for origin, to, kind in moves]
    else:
        digest = hashlib.sha512((name + epd).encode()).digest()
        places = [(5 * to + origin) % 61 for origin, to, _ in moves]
    raw, weights = [1 + byte for byte in digest[:3]], [(1 + digest[3 + place]) ** 2 for place in places]
    whole, total = sum(raw), sum(weights)
    return Answer(epd, [x / whole for x in raw], [w / total for w in weights])


@dataclass
class Node:
    """A record in plain Python; edges in descending P."""

    v: float
    d: int
    moves: list[chess.Move] = field(default_factory=list)
    codes: list[int] = field(default_factory=list)
    n: list[int] = field(default_factory=list)
    r: list[int] = field(default_factory=list)
    q: list[float] = field(default_factory=list)
    edge_d: list[int] = field(default_factory=list)
    terminal: int = packed.NOT_TERMINAL
    clock: int = 0
    known: int = 0  # plies of a mate that was seen at once, which V and D then hold

    @property
    def visits(self) -> int:
        return 1 + sum(self.n)

    def edges(self) -> list[tuple[int, float, int]]:
        return [(n - r, q, d) for n, r, q, d in zip(self.n, self.r, self.q, self.edge_d, strict=True)]

    def bounds(self) -> proofs.Bounds:
        if self.terminal:
            return (int(self.v), int(self.v))
        if self.known:
            return (1, 1)
        return edge_bounds(self.edges(), len(self.moves))

    def proof(self) -> proofs.Proof | None:
        return node_proof(self.bounds(), self.edges(), len(self.moves), self.clock, self.known)

    def closed(self, k: int, clock: int) -> bool:
        """Returns whether the result of edge `k` is proven at this clock."""
        proof = proofs.proof_of(self.q[k], self.edge_d[k]) if self.n[k] > self.r[k] else None
        return proof is not None and proof.holds_at(clock)

    def decided(self, clock: int) -> bool:
        """Returns whether edges prove the result at this clock."""
        proof = self.proof()
        edges = [proofs.bounds_of(q, d) for valued, q, d in self.edges() if valued]
        if proof is None or not proof.holds_at(clock):
            return False
        return proof.result < 0 or any(low == proof.result for low, _ in edges)

    def mean(self) -> float:
        total = self.v
        for n, r, q in zip(self.n, self.r, self.q, strict=True):
            if n:
                total += (n - r) * q
        lower, upper = self.bounds()
        return float(np.float32(min(float(upper), max(float(lower), total / self.visits))))

    def draws(self) -> int:
        lower, upper = self.bounds()
        if lower == upper:
            return 0 if lower else 1000
        edges = zip(self.n, self.r, self.q, self.edge_d, strict=True)
        total = self.d + sum((n - r) * proofs.share_of(q, d) + 1000 * r for n, r, q, d in edges)
        return capped((2 * total + self.visits) // (2 * self.visits), self.mean())


def capped(draws: int, q: float) -> int:
    """Returns a draw share per mille of at most 1 - |Q|."""
    return min(draws, int(1000 * (1 - abs(q)) + 0.5))


def field_of(child: Node, *, resets: bool) -> int:
    """Returns the draw field of an edge to a node: its draw share, or what is proven."""
    lower, upper = child.bounds()
    proof = child.proof()
    if proof:
        return edge_code(proof, resets=resets)
    if upper == 0:  # at most a draw for the child: at least one for this side
        return 1002 + min(child.draws() // 100, 9)
    return 1012 + min(child.draws() // 100, 9) if lower == 0 else child.draws()


class ReferenceSearch:
    """Plain sequential PUCT with transpositions, catch-up and draws of the path."""

    def __init__(self, evaluator: Evaluator, params: SearchParams) -> None:
        self.evaluator = evaluator
        self.params = params
        self.nodes: dict[int, Node] = {}
        self.catch_ups = 0
        self.searchmoves: frozenset[chess.Move] = frozenset()

    def run(self, board: chess.Board, visits: int, searchmoves: frozenset[chess.Move] = frozenset()) -> Node:
        self.searchmoves = searchmoves
        for _ in range(visits):
            known = self.nodes.get(packed.key_of(board))
            if known and not searchmoves and known.decided(board.halfmove_clock):
                break
            self.visit(board)
        return self.nodes[packed.key_of(board)]

    def visit(self, root: chess.Board) -> None:
        board = root.copy(stack=False)
        path: list[tuple[Node, int, bool]] = []
        seen: set[str] = set()
        end: Node | None = None
        while True:
            epd, key = board.epd(), packed.key_of(board)
            if path and (epd in seen or self._drawn(board)):
                break
            seen.add(epd)
            node = self.nodes.get(key)
            end = node or self.nodes.setdefault(key, self._evaluate(board))
            if node is None or node.terminal or (path and self._settled(node, board)):
                break
            if path and self._supports(node, *path[-1][:2]):
                break
            k = self._select(node, frozenset() if path else self.searchmoves, board.halfmove_clock)
            path.append((node, k, board.is_zeroing(node.moves[k])))
            board.push(node.moves[k])
            end = None
        self._back_up(path, end)

    def _settled(self, node: Node, board: chess.Board) -> bool:
        proof = node.proof()
        return proof is not None and proof.holds_at(board.halfmove_clock)

    def _supports(self, child: Node, parent: Node, k: int) -> bool:
        if child.visits <= self.params.catch_up_ratio * (parent.n[k] + 1):
            return False
        self.catch_ups += 1
        return True

    def _drawn(self, board: chess.Board) -> bool:
        return board.halfmove_clock >= 100 and not board.is_checkmate()

    def _evaluate(self, board: chess.Board) -> Node:
        kind = packed.terminal_kind(board)
        if kind:
            drawn = kind in (packed.STALEMATE, packed.DEAD)
            return Node(0.0 if drawn else -1.0, 1000 if drawn else 0, terminal=kind)
        moves = packed.legal_moves(board)
        mate = mate_in_one(board)
        if mate is not None and board.halfmove_clock < 100:
            priors = np.full(len(moves), 0.25 / len(moves), np.float32)
            priors[mate] = 0.75
            return self._node(board, 1.0, 1, moves, priors, known=1)
        evaluation = self.evaluator.evaluate(PositionBatch.from_boards([board]))
        w, d, loss = (float(x) for x in (evaluation.wdl / evaluation.wdl.sum(axis=1, keepdims=True))[0])
        v = float(np.float32(w) - np.float32(loss))
        priors = evaluation.priors / evaluation.priors.sum()
        return self._node(board, v, capped(int(1000 * d + 0.5), v), moves, priors)

    def _node(
        self,
        board: chess.Board,
        v: float,
        d: int,
        moves: Sequence[chess.Move],
        priors: NDArray[np.float32],
        *,
        known: int = 0,
    ) -> Node:
        codes = prior_codes(priors).tolist()
        order = prior_order(codes)
        zeros = [0] * len(moves)
        return Node(
            v, d, [moves[i] for i in order], [codes[i] for i in order],
            zeros.copy(), zeros.copy(), [0.0] * len(moves), zeros.copy(), clock=board.halfmove_clock,
            known=known,
        )  # fmt: skip

    def _select(self, node: Node, searchmoves: frozenset[chess.Move], clock: int) -> int:
        p = self.params
        spent = sum(node.n)
        base = p.cpuct_base
        c = (p.cpuct + p.cpuct_factor * math.log((spent + 1.0 + base) / base)) * math.sqrt(max(1.0, spent))
        c *= min(1.0, max(1.0 - node.mean() ** 2, 0.005) / max(1.0 - p.decided_from**2, 0.005))
        norm = float(np.float32(1.0 / sum(code**4 for code in node.codes)))
        visited = float(sum(code**4 for code, n in zip(node.codes, node.n, strict=True) if n))
        fpu = node.mean() - p.fpu_value * math.sqrt(visited * norm)
        closed = [not searchmoves and node.closed(k, clock) for k in range(len(node.codes))]
        best, chosen = -math.inf, 0
        for k, code in enumerate(node.codes):
            n = node.n[k]
            if searchmoves and node.moves[k] not in searchmoves:
                continue
            if closed[k] and not all(closed):
                continue
            value = (n - node.r[k]) * node.q[k] / n if n else fpu
            score = value + c * norm * float(code**4) / (1 + n)
            if score > best:
                best, chosen = score, k
        return chosen

    def _back_up(self, path: list[tuple[Node, int, bool]], end: Node | None) -> None:
        """Updates a path's edges, deepest first; `end` is None if the path made it a draw."""
        child = end
        for node, k, resets in reversed(path):
            node.n[k] += 1
            if child is None:
                node.r[k] += 1
            else:
                node.q[k] = float(np.float32(0.0) - np.float32(child.mean()))
                node.edge_d[k] = field_of(child, resets=resets)
            child = node


# ------------------------------------------------------------------ the rules of proofs, for comparison
def edge_bounds(edges: Iterable[tuple[int, float, int]], moves: int) -> proofs.Bounds:
    """Returns the bounds of a node by its edges, (n - r, q, d) each."""
    lower, upper, proven = -1, -1, 0
    for valued, q, d in edges:
        low, high = proofs.bounds_of(q, d) if valued else proofs.UNPROVEN
        lower, upper = max(lower, low), max(upper, high)
        proven += 1
    return lower, upper if proven == moves else 1


def node_proof(
    bounds: proofs.Bounds, edges: Iterable[tuple[int, float, int]], moves: int, clock: int, known: int = 0
) -> proofs.Proof | None:
    """Returns the proof of a node with an exact result: the shortest win, or the longest loss.

    A result with neither proven edges nor a mate that the record itself holds (`known`, in plies) is that of
    a tablebase: it holds at the record's clock and below.
    """
    if bounds[0] != bounds[1]:
        return None
    if bounds[0] == 0:
        return proofs.Proof(0, None, 0)
    codes = [d for valued, q, d in edges if valued and proofs.bounds_of(q, d) == bounds]
    if bounds[0] > 0 and known:
        codes.append(known)
    if bounds[0] > 0 and codes:
        return proofs.proof_of(1.0, min(codes))
    if bounds[0] < 0 and codes and len(codes) == moves:
        if max(codes) <= proofs.MOST_MATE:
            mate = min(max(codes), known or proofs.MOST_MATE)  # the edges' mates may be longer than necessary
            return proofs.Proof(-1, mate, mate)
        longest = max(code - proofs.MOST_MATE * (code > proofs.MOST_MATE) for code in codes)
        return proofs.Proof(-1, None, longest)
    if known or not moves:
        return proofs.Proof(bounds[0], known, known)
    return proofs.Proof(bounds[0], None, packed.CLOCK_DRAW - clock)


def edge_code(proof: proofs.Proof, *, resets: bool) -> int:
    """Returns the `d` of an edge to a node with a proven result; `resets`: its move resets the clock."""
    if proof.result == 0:
        return proofs.DRAWN
    if proof.mate is not None and proof.mate < proofs.MOST_MATE:
        return proof.mate + 1
    return proofs.MOST_MATE + (1 if resets else min(proof.plies + 1, proofs.MOST_MATE))
