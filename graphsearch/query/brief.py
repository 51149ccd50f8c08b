"""What to play, how sure that is, why, what would change it, and what changed: in five lines. Reads only.

No line says what the records do not show. Moves whose values are closer than what the search still moves are
as good as each other (`still_moves`). A choice is as sure as the chance that it stands after ten times the
visits (`chances`). Both were fitted to searches of real positions: docs/contributing/algorithm.md.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path

import chess

from ..base.answer import Answer
from ..base.system import join_command
from ..graph.view import MoveView, NodeView, lines_of, view
from ..position.board import CHECKMATE, DEAD, STALEMATE, after, fen_of, is_over_by_clock, terminal_kind
from ..position.notation import numbered, sans_of
from ..position.values import CP_FACTOR, CP_SLOPE, cp_of, loss_of
from ..store.tables.books import chosen_moves
from ..store.tables.games import games_played
from ..store.tables.history import of_root
from .saves import Saved, first_run, saved_at
from .source import Records, records_of, steps_of

# The chance of a move is its share of exp(score). The score adds these for the leading move, and per unit of
# ln(n), of ln(P) and of Q ln(n).
LEADS, PER_LN_N, PER_LN_P, PER_Q = 0.24, 0.87, 0.68, 2.47
MOVED, MOVED_POWER = 0.25, 0.25  # Q that a move of n visits still moves: MOVED / n ** MOVED_POWER
LEAST_P = 0.001  # of a move in its score
LEAST_CHANCE = 0.03  # of a move that may be as good as the leading one
WORDS = ((95, "Settled"), (80, "Likely"), (60, "Leaning"), (0, "Open"))  # least chance of each in whole %
OVER, UNVISITED, PROVEN, FORCED, OPEN = "over", "unvisited", "proven", "forced", "open"  # states of a brief
LOST = (-1, -1)  # bounds of a move or a position
LINE_PLIES = 4  # of a refuted move's line, with the move
NAMED = 3  # moves of a group in a sentence, and refuted moves
FAR_CP = 300  # from here on, moves that are as good are only counted
# Of such a move: least visits, least loss in centipawns, and as a multiple of what its value still moves.
REFUTED_VISITS, REFUTED_CP, REFUTED_ERRORS = 50, 20, 1.5
LEAST_VISITS = 5000  # of a command
FITTED_VISITS = 100  # least of the searches that the chances were fitted to
NEXT_VISITS = 30  # least of the move that is compared with the choice
NATURAL_P, NATURAL_GAMES, COMMON = 0.05, 5, 0.1  # least P; games of a position, and share of them with a move
CLEAR = 0.6  # share of the visits of a reply that a search is sent past
LONGEST_TEXT = 60  # characters of a line in a command, else it names the position; of a command in a sentence


@dataclass(frozen=True, slots=True)
class Candidate(Answer):
    """A move, and the chance that ten times the visits choose it; values are seen by the side to move."""

    move: chess.Move
    san: str
    n: int
    q: float
    cp: int
    chance: float


@dataclass(frozen=True, slots=True)
class Refuted(Answer):
    """A natural move that loses: `why` it is natural, its loss of Q in centipawns at a level position, and
    the line in SAN.

    `why`: `repertoire`, `games` or `prior`. `mate`: moves to the mate that it allows, else None.
    """

    move: chess.Move
    why: str
    loss_cp: int
    mate: int | None
    line: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Unsettled(Answer):
    """The line that is likeliest to change the choice, the chance of that, and a command that searches it."""

    line: tuple[str, ...]
    chance: float
    visits: int
    command: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Brief(Answer):
    """What a file says about a position; values are seen by the side to move.

    Attributes:
      lines: at most five lines of English. state: `open`, `proven`, `forced` (one move does not lose),
        `unvisited` or `over`. error_cp: what values still move.
      certainty, word: the chance of the first move, in [0, 1], and its word; None unless `open`. With fewer
        than FITTED_VISITS, only the word.
      moves: the choice, and the moves that the search cannot tell from it; none if no good move is known.
      next, next_cp: the best move beside them, in UCI, and what it loses; None if that is not clear.
      before: the last session, or the one before a moment, if it differs.
    """

    position: str
    visits: int
    state: str
    certainty: float | None = None
    word: str | None = None
    error_cp: int | None = None
    moves: tuple[Candidate, ...] = ()
    next: chess.Move | None = None
    next_cp: int | None = None
    refuted: tuple[Refuted, ...] = ()
    unsettled: Unsettled | None = None
    before: Saved | None = None
    lines: tuple[str, ...] = ()


def still_moves(n: int) -> float:
    """Returns by how much a value of `n` visits still moves: nine of ten values move less.

    >>> round(still_moves(100), 3), round(still_moves(10_000), 3)
    (0.079, 0.025)
    """
    return MOVED / math.pow(max(n, 1), MOVED_POWER)


def chances(moves: Sequence[MoveView]) -> list[float]:
    """Returns the chance of each visited move, the leading one first, that ten times the visits choose it."""
    first, weights = moves[0], []
    for move in moves:
        score = LEADS * (move is first) + PER_LN_N * math.log(move.n / first.n)
        score += PER_LN_P * math.log(max(move.p, LEAST_P))
        score += PER_Q * ((move.q or 0.0) - (first.q or 0.0)) * math.log(move.n)
        weights.append(math.exp(score))
    return [weight / sum(weights) for weight in weights]


def percent(chance: float) -> str:
    """Returns a chance in per cent; nothing is certain that is not proven.

    >>> percent(0.824), percent(0.9999)
    ('82 %', '99 %')
    """
    return f"{min(99, max(1, round(100 * chance)))} %"


def standing(cp: int) -> str:
    """Returns how a side stands, in pawns.

    >>> standing(31), standing(-130), standing(0)
    ('0.31 ahead', '1.30 behind', 'level')
    """
    return f"{abs(cp) / 100:.2f} {'ahead' if cp > 0 else 'behind'}" if cp else "level"


# ------------------------------------------------------------------ from the records
def brief(
    path: str | os.PathLike[str] | Records,
    board: chess.Board,
    *,
    node: NodeView | None = None,
    since: str | None = None,
) -> Brief:
    """Returns what to play in a position, how sure that is, why, what would change it and what changed.

    Args:
      path: the graph file, which is only read, or records in memory.
      node: the view of the position, if it is known, with or without lines.
      since: the moment to compare with, as that of `diff.since`; None: the last session of the position.

    Raises:
      UnknownPositionError: if the file does not hold the position.
      InvalidParameterError: if `since` is no moment.
    """
    with records_of(path) as source:
        source.wanted(board)
        found = node or view(source.read, board, lines=0, read_all=source.read_all)
        assert found is not None
        return _Writer(source, board, found).brief(since)


class _Writer:
    """The sentences about one position, and what they are made of."""

    def __init__(self, source: Records, board: chess.Board, node: NodeView) -> None:
        self._source, self._board, self._node, self._file = source, board, node, source.file
        self._us, self._them = ("White", "Black") if board.turn else ("Black", "White")

    def brief(self, since: str | None) -> Brief:
        """Returns the brief; `since`: as that of the function."""
        node, over = self._node, self._over()
        found = Brief(position=node.position, visits=node.visits, state=OVER, lines=(over,))
        if over:
            return found
        old, (result, most) = self._before(since), node.bounds
        fits, is_exact = [move for move in node.moves if move.bounds != LOST], result == most
        if is_exact:  # a tablebase gives no moves
            fits = [move for move in node.moves if move.bounds[0] == result or move.q == result]
        if result > 0:  # the record may not know yet what the one behind a move proves
            fits.sort(key=lambda move: move.mate or math.inf)
        first = next(iter(fits), None)
        if not first or not (first.n or is_exact):
            proof = f"it is proven that {self._us} {('draws', 'wins', 'is lost')[result]}"
            worth = f"for the evaluator, {self._us} is {standing(cp_of(node.q))}"
            said = f"No search has found a move here; {proof if is_exact else worth}."
            return replace(found, state=PROVEN if is_exact else UNVISITED, lines=(said,))
        found = replace(found, before=old, moves=(_candidate(first, 1.0),))
        if is_exact:
            found, lines = replace(found, state=PROVEN), self._proven(first)
        elif all(move.bounds == LOST for move in node.moves[1:]):
            found, lines = replace(found, state=FORCED), self._forced()
        else:
            found = self._choice(found)
            lines = self._said(found)
        return replace(found, lines=tuple(filter(None, (*lines, *self._changed(old)))))

    def _choice(self, found: Brief) -> Brief:
        """Returns the brief on a choice that nothing proves."""
        moves = [move for move in self._node.moves if move.n and move.bounds != LOST]
        best, *rivals = map(_candidate, moves, chances(moves))
        as_good = [
            move for move in rivals if move.chance >= LEAST_CHANCE and move.q >= best.q - still_moves(move.n)
        ]
        rest = [move for move in rivals if move not in as_good and move.n >= NEXT_VISITS]
        is_fitted = self._node.visits >= FITTED_VISITS
        after_them, moved = max(rest, key=lambda move: move.q, default=None), still_moves(best.n)
        if after_them and after_them.q >= best.q - still_moves(after_them.n):
            after_them = None
        return replace(
            found,
            state=OPEN,
            certainty=best.chance if is_fitted else None,
            word=next(word for least, word in WORDS if round(100 * best.chance) * is_fitted >= least),
            error_cp=round((cp_of(best.q + moved) - cp_of(best.q - moved)) / 2),
            moves=(best, *as_good),
            next=after_them.move if after_them else None,
            next_cp=loss_of(best.cp, after_them.cp) if after_them else None,
            refuted=tuple(self._refuted(best, {move.move for move in (best, *as_good)})),
            unsettled=self._unsettled(max(rivals, key=lambda move: move.chance)) if rivals else None,
        )

    # -------------------------------------------------------------- what, and how sure
    def _name(self, *sans: str) -> str:
        return numbered(sans, self._board.ply())

    def _names(self, sans: Sequence[str]) -> str:
        """Returns alternatives in words: `1. d4, 1. c4 and 2 more`."""
        named = [self._name(san) for san in sans[: NAMED + (len(sans) == NAMED + 1)]]
        named += [f"{len(sans) - NAMED} more"] * (len(sans) > len(named))
        return " and ".join(filter(None, (", ".join(named[:-1]), named[-1])))

    def _over(self) -> str:
        """Returns why there is nothing to play; an empty text if there is."""
        if is_over_by_clock(self._board):
            return "The game is over: it is drawn by the 75-move rule."
        ends = {
            CHECKMATE: f"Checkmate: {self._them} has won.",
            STALEMATE: f"Stalemate: the game is drawn; {self._us} has no legal move.",
            DEAD: "Draw: no side can mate.",
        }
        return ends.get(terminal_kind(self._board), "")

    def _proven(self, first: MoveView) -> Iterator[str]:
        us, name, mate = self._us, self._name(first.san), self._node.mate
        if self._node.bounds == LOST:
            end = f": mate in {-mate} at the latest, with {name}." if mate else f"; {name} is listed first."
            yield f"{us} is lost whatever is played{end}"
        elif self._node.bounds[0] == 1:
            yield f"{us} plays {name} and " + (f"mates in {mate}." if mate else "wins.")
        else:
            yield f"{us} plays {name} and draws; no move wins."
        yield "Proven: no search can change this result."

    def _forced(self) -> Iterator[str]:
        first, *others = self._node.moves
        worth = f"{self._us} is {standing(first.cp or 0)}" if first.n else "it has no visits"
        yield f"{self._us} has to play {self._name(first.san)}; {worth}."
        yield f"Forced: {'every other move loses, which is proven' if others else 'no other move is legal'}."

    def _said(self, found: Brief) -> Iterator[str]:
        (best, *others), equal, group = found.moves, "", ""
        name = self._name(best.san)
        if others:
            equal = f"; {self._names([move.san for move in others])} may be as good"
            group = f", {percent(sum(move.chance for move in found.moves))} that they choose one of these"
        if len(others) > 1 and abs(best.cp) >= FAR_CP:
            equal = f", as with {len(others)} other moves"
        yield f"{self._us} plays {name} and is {standing(best.cp)}{equal}."
        sure = f"too few visits ({found.visits:,}) to say how sure that is"
        if found.certainty:
            sure = f"{percent(best.chance)} that ten times the visits choose {name} again{group}"
        yield f"{found.word}: {sure}."
        yield " ".join(self._why(found))
        if found.certainty and found.unsettled and found.unsettled.chance >= 0.01:
            line, command = self._name(*found.unsettled.line), found.unsettled.command
            search = f" Search it: {command}" if command and len(command) <= LONGEST_TEXT else ""
            yield f"Most likely to change that: {line} ({percent(found.unsettled.chance)}).{search}"

    # -------------------------------------------------------------- why
    def _why(self, found: Brief) -> Iterator[str]:
        if found.next and found.next_cp and found.next not in {one.move for one in found.refuted}:
            yield f"Next is {self._name(self._board.san(found.next))}, {found.next_cp / 100:.2f} worse."
        alike: dict[object, list[Refuted]] = {}
        for one in found.refuted:
            alike.setdefault(one.mate or one.move, []).append(one)
        for one, *more in list(alike.values())[:NAMED]:
            reply = numbered(one.line[1:], self._board.ply() + 1)
            loss = f"allows mate in {one.mate}:" if one.mate else f"loses {one.loss_cp / 100:.2f} to"
            if more:
                yield f"{self._names([each.line[0] for each in (one, *more)])} allow mate in {one.mate}."
            else:
                yield f"{self._name(one.line[0])} {loss} {reply}."

    def _refuted(self, best: Candidate, as_good: Set[chess.Move]) -> Iterator[Refuted]:
        """Yields the natural moves that lose to a reply which the records support."""
        for known, why in self._natural():
            lost = best.q - (known.q or 0.0)
            loss = round(CP_FACTOR * CP_SLOPE * lost)  # as if the position were level
            mate = -known.mate if known.mate and known.mate < 0 else None
            is_clear = loss >= REFUTED_CP and lost >= REFUTED_ERRORS * still_moves(known.n)
            if known.move in as_good or not (mate or (is_clear and known.n >= REFUTED_VISITS)):
                continue
            line = known.pv
            if len(line) < LINE_PLIES:
                (line,) = lines_of(self._source.read_all, self._board, [known.move], plies=LINE_PLIES)
            sans = sans_of(self._board, line[:LINE_PLIES])
            if len(sans) > 1:
                yield Refuted(known.move, why, loss, mate, sans)

    def _natural(self) -> list[tuple[MoveView, str]]:
        """Returns the moves that a person would think of, and why: those of games, own moves, by P."""
        found: dict[str, str] = {}
        if self._file:
            own = chosen_moves(self._file, self._node.key).get(self._us.lower(), [])
            games = games_played(self._file, self._node.key)
            least = max(NATURAL_GAMES, COMMON * sum(games.values()))
            popular = (uci for uci in games if games[uci] >= least)
            found = dict.fromkeys(popular, "games") | dict.fromkeys(own, "repertoire")
        by_p = sorted(self._node.moves, key=lambda move: -move.p)[: 2 * NAMED]
        found = found | {move.move.uci(): "prior" for move in by_p if move.p >= NATURAL_P} | found
        known = {move.move.uci(): move for move in self._node.moves}
        return [(known[uci], why) for uci, why in found.items() if uci in known]

    # -------------------------------------------------------------- what would change it
    def _unsettled(self, rival: Candidate) -> Unsettled:
        """Returns the line to the move that is likeliest to be chosen instead, past its clear replies."""
        moves, walk = [rival.move], after(self._board, rival.move)
        while (record := self._source.read(walk)) and len(moves) < LINE_PLIES:
            step = next(iter(steps_of(record, walk)), None)
            if not step or step.edge.n < CLEAR * record.visits or (walk := step.after()).is_game_over():
                break
            moves.append(step.move)
        visits = record.visits if record else 0
        return Unsettled(sans_of(self._board, moves), rival.chance, visits, self._command(moves, visits))

    def _command(self, moves: Sequence[chess.Move], visits: int) -> str | None:
        """Returns the command that gives a line ten times its visits; None without a file."""
        if self._file is None:
            return None
        wanted = 9 * max(visits, LEAST_VISITS // 9)
        scale = 10 ** (len(str(wanted)) - 1)
        root = self._board.root()
        text = numbered(sans_of(root, [*self._board.move_stack, *moves]), root.ply())
        words = [text]
        if root.fen() != chess.STARTING_FEN or len(text) > LONGEST_TEXT:
            words = [fen_of(self._board), "--moves", " ".join(sans_of(self._board, moves))]
        file, here = self._source.path, Path.cwd()
        name = file.relative_to(here) if file.is_relative_to(here) else file
        given = -(-wanted // scale) * scale // 1000
        visits_text = f"{given}k" if given < 1000 else f"{given // 1000}M"
        return join_command(["graphsearch", "analyze", str(name), *words, "--visits", visits_text])

    # -------------------------------------------------------------- what changed
    def _before(self, since: str | None) -> Saved | None:
        """Returns the last save before a moment, or this session; its own if there is no other."""
        saves = of_root(self._file, self._node.key) if self._file else []
        if not self._file or not saves:
            return None
        runs, is_saved = self._file.runs(), saves[-1].n == self._node.visits
        now = saves[-1].run if is_saved else runs[-1].id
        this = now if since is None else first_run(runs, since)
        # its own because games may be newer
        old = [save for save in saves if save.run < this] or saves[-1:] * (is_saved and since is None)
        return saved_at(self._board, old[-1]) if old else None

    def _changed(self, old: Saved | None) -> Iterator[str]:
        """Yields what differs from an earlier session, if anything does."""
        if old is None:
            return
        from .game_list import first_played  # rare, and a few milliseconds to import

        first, node, parts = self._node.moves[0], self._node, []
        if old.best_san and old.best_san != first.san:
            parts.append(f"{self._name(first.san)} took over from {self._name(old.best_san)}")
        if node.bounds[0] == node.bounds[1] and abs(old.q) < 1 and old.n < node.visits:
            parts.append("the result was proven")
        elif abs(node.q - old.q) > still_moves(old.n):
            parts.append(f"{self._us} went from {standing(old.cp)} to {standing(cp_of(node.q))}")
        if self._file and (fresh := first_played(self._file, self._board, old.saved)):
            parts.append(f"new in games: {self._names(fresh)}")
        if parts:
            yield f"Since {old.saved[:10]} ({old.n:,} visits): {'; '.join(parts)}."


def _candidate(move: MoveView, chance: float) -> Candidate:
    return Candidate(move.move, move.san, move.n, move.q or 0.0, move.cp or 0, chance)
