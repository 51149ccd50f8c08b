"""Parses the scores in an engine's `info` lines, and converts them to Q and WDL.

    info depth 7 multipv 2 score cp 31 lowerbound wdl 60 935 5 nodes 812 pv e2e4 e7e5
                                 |  |             |                          |
                                 centipawns,      UCI_ShowWDL, per mille     the scored move
                                 exact unless a bound follows

All values are seen by the side to move.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...position.values import WDL, wdl_from_q

# V of engines without WDL: win is sigmoid((cp - WIN_CP) / WIN_SCALE), loss the same of -cp. Fitted by hand
# once, to reference WDL, from the cp of Toga II 3.0, Glaurung 2.2 and Ethereal 12.00. Its cross-entropy is
# 0.233, that of Stockfish 14's model at move 32 is 0.246, that of lc0's cp with 70 % draws 0.325.
WIN_CP = 110.0
WIN_SCALE = 40.0

# P: Q = 2 sigmoid(POLICY_SLOPE * cp) - 1, lichess's formula. WDL is flat near equality, where most moves are:
# priors from it are further from the reference at any temperature (docs/contributing/benchmarks.md).
POLICY_SLOPE = 0.00368208

MOST_CERTAIN = 0.99  # largest |Q| without a mate
MATE_STEP = 1e-4  # of Q for each move to the mate
MATE_MOVES = 99  # longer mates have the same Q


@dataclass(frozen=True, slots=True)
class Score:
    """One score of one line, seen by the side to move.

    Attributes:
      cp: centipawns; meaningless for a mate.
      mate: moves to the mate, negative if the side to move is mated; None for no mate.
      wdl: per mille, None if the line has none.
      is_exact: False for a bound.
      depth: plies, as the engine counts them; 0 if the line has none.
      move: UCI; empty if the line has no pv.
    """

    cp: int
    mate: int | None = None
    wdl: tuple[int, int, int] | None = None
    is_exact: bool = True
    depth: int = 0
    move: str = ""


def parse_score(line: str) -> Score | None:
    """Parses the score of an `info` line; returns None if it has none, or an invalid one.

    >>> parse_score("info depth 5 score cp -7 upperbound nodes 100 pv e2e4 e7e5")
    Score(cp=-7, mate=None, wdl=None, is_exact=False, depth=5, move='e2e4')
    >>> parse_score("info depth 2 score mate -1 wdl 0 0 1000").mate
    -1
    >>> parse_score("info string depth 3 score cp 8") is parse_score("info score cp high") is None
    True
    """
    words = line.split()
    end = words.index("pv") if "pv" in words else len(words)
    head = words[1:end]
    if "string" in head or "score" not in head:
        return None
    try:
        at = head.index("score")
        unit, number = head[at + 1], int(head[at + 2])
        if unit not in ("cp", "mate"):
            return None
        return Score(
            cp=number if unit == "cp" else 0,
            mate=number if unit == "mate" else None,
            wdl=_wdl(head),
            is_exact="lowerbound" not in head and "upperbound" not in head,
            depth=int(head[head.index("depth") + 1]) if "depth" in head else 0,
            move=words[end + 1].lower() if end + 1 < len(words) else "",  # some write e7e8Q
        )
    except (ValueError, IndexError):
        return None


def _wdl(head: list[str]) -> tuple[int, int, int] | None:
    if "wdl" not in head:
        return None
    at = head.index("wdl")
    win, draw, loss = (int(word) for word in head[at + 1 : at + 4])
    return (win, draw, loss) if min(win, draw, loss) >= 0 and win + draw + loss > 0 else None


def best_known(scores: Iterable[Score]) -> Score | None:
    """Returns the final score of a line: the last exact one of the greatest depth.

    Without an exact score it returns the last bound of the greatest depth, the best information there is.
    Without any score it returns None.

    >>> best_known([Score(5, depth=1), Score(9, depth=2), Score(-80, is_exact=False, depth=3)]).cp
    9
    >>> best_known([Score(30, is_exact=False, depth=1), Score(60, is_exact=False, depth=1)]).cp
    60
    """
    return max(reversed([*scores]), key=lambda score: (score.is_exact, score.depth), default=None)


def scores_by_move(lines: Sequence[str]) -> dict[str, Score]:
    """Returns the final score of every move, by the first move of each pv.

    >>> scores_by_move(["info depth 1 score cp 5 pv e2e4", "info depth 2 score cp 7 pv e2e4 e7e5"])
    {'e2e4': Score(cp=7, mate=None, wdl=None, is_exact=True, depth=2, move='e2e4')}
    """
    by_move: dict[str, list[Score]] = {}
    for score in filter(None, map(parse_score, lines)):
        by_move.setdefault(score.move, []).append(score)
    return {move: best for move, scores in by_move.items() if move and (best := best_known(scores))}


# ------------------------------------------------------------------ scores as Q and WDL
def wdl_of(score: Score) -> WDL:
    """Returns the WDL of a score: the engine's own if the score has one, else that of its centipawns.

    A mate has draw probability 0 and a Q by its distance. Without a mate |Q| is at most MOST_CERTAIN.

    >>> wdl_of(Score(0, wdl=(100, 800, 100)))
    WDL(win=0.1, draw=0.8, loss=0.1)
    >>> wdl_of(Score(0, mate=2)).q, wdl_of(Score(0, mate=-2)).draw
    (0.9998, 0.0)
    """
    if score.mate is not None:
        return wdl_from_q(mate_q(score.mate), 0.0)
    win, draw, loss = score.wdl or cp_wdl(score.cp)
    total = win + draw + loss
    q = (win - loss) / total
    if abs(q) <= MOST_CERTAIN:
        return WDL(win / total, draw / total, loss / total)
    return wdl_from_q(math.copysign(MOST_CERTAIN, q), 1.0 - MOST_CERTAIN)


def mate_q(moves: int) -> float:
    """Returns the Q of a mate in `moves` moves; negative: the side to move is mated; 0: it is mated now.

    >>> mate_q(1) > mate_q(2) > mate_q(500) > MOST_CERTAIN > -MOST_CERTAIN > mate_q(-3) > mate_q(0)
    True
    """
    distance = MATE_STEP * min(abs(moves), MATE_MOVES)
    return 1.0 - distance if moves > 0 else distance - 1.0


def cp_wdl(cp: float) -> tuple[float, float, float]:
    """Returns win, draw and loss of centipawns, for an engine without WDL.

    >>> cp_wdl(0)[0] == cp_wdl(0)[2], round(sum(cp_wdl(70)), 6)
    (True, 1.0)
    """
    win, loss = _sigmoid((cp - WIN_CP) / WIN_SCALE), _sigmoid((-cp - WIN_CP) / WIN_SCALE)
    return win, 1.0 - win - loss, loss


def policy_q(score: Score) -> float:
    """Returns the Q of a move for its prior.

    >>> round(policy_q(Score(100)), 3), policy_q(Score(0, mate=1)) > policy_q(Score(9000))
    (0.182, True)
    """
    if score.mate is not None:
        return mate_q(score.mate)
    q = 2 * _sigmoid(POLICY_SLOPE * score.cp) - 1
    return max(-MOST_CERTAIN, min(MOST_CERTAIN, q))


def a_move_earlier(score: Score) -> Score:
    """Converts a score of the position after a move to a score of that move.

    >>> a_move_earlier(Score(30)).cp, [a_move_earlier(Score(0, mate=n)).mate for n in (0, -1, 3)]
    (-30, [1, 2, -3])
    """
    mate = score.mate
    if mate is not None:
        mate = 1 - mate if mate <= 0 else -mate  # the mating side's move counts
    wdl = None if score.wdl is None else (score.wdl[2], score.wdl[1], score.wdl[0])
    return Score(-score.cp, mate, wdl, score.is_exact, score.depth + 1)


def _sigmoid(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-max(-40.0, min(40.0, x))))
