"""Where each group of evaluation weights lies in the one array that the kernels read.

A group of terms of positions or of moves holds pairs, packed as `middlegame + (endgame << 32)`, in
thousandths of a pawn or of a logit; the groups of `SCALAR_GROUPS` hold millionths, not packed. This
module needs no Numba.
"""

from __future__ import annotations

TAPERED_GROUPS = {
    "material": 6,
    "piece_square": 6 * 32,  # piece, rank seen by its side, file folded to a..d
    "mobility": 4 * 28,  # knight, bishop, rook, queen; safe squares reached
    "passed": 8,  # by rank, here and in the next groups
    "passed_free": 8,
    "passed_blocked": 8,
    "passed_own_king": 2 * 8,  # early or advanced pawn, king's distance to the square before it
    "passed_their_king": 2 * 8,
    "passed_runner": 1,
    "connected": 2 * 8,  # phalanx, supported
    "isolated": 2,  # free file, opposed
    "doubled": 2,
    "backward": 2,
    "shield": 2 * 8,  # the king's file or one beside it, rank of the nearest own pawn (0 = none)
    "storm": 2 * 8,
    "danger": 2 * 48,  # attacker has a queen or not, attack units
    "zone_attack": 4,
    "safe_check": 4,
    "threat_by_pawn": 5,
    "threat_by_minor": 5,
    "threat_by_rook": 5,
    "threat_by_king": 5,
    "hanging": 5,
    "push_threat": 1,
    "bishop_pair": 1,
    "rook_file": 2,  # open, half open
    "outpost": 2,  # knight, bishop
    "bishop_pawns": 9,  # own pawns on the bishop's colour
    "knight_pawns": 9,  # all own pawns
    "rook_pawns": 9,
    "space": 1,
    "tempo": 1,
}

MOVE_GROUPS = {
    "move_from": 6 * 32,  # as piece_square
    "move_to": 6 * 32,
    "move_capture": 3 * 6,  # exchange loses, is even, wins; by what is taken (5 = nothing)
    "move_check": 2,  # exchange loses, or not
    "move_promotion": 4,  # knight, bishop, rook, queen
    "move_castle": 1,
    "move_leaves_attack": 2 * 6,  # by a lesser piece or on a loose square; by kind
    "move_enters_attack": 2 * 6,  # by a pawn, by any piece; by kind
    "move_threat": 6 * 6,  # kind, by what its new attacks hit
    "move_zone": 6,  # by kind, its target attacks the king's surroundings
    "move_passed": 8,  # rank that a passed pawn reaches
    "move_evades": 6,  # by kind, when in check
    "move_loss": 2 * 24,  # first score only or verified; below the best move's score in steps of LOSS_STEP
}
MAP_TERMS = 10  # of each width of the value map; see `map_exponent`
SCALAR_GROUPS = {
    "score_factor": 1,  # from scores to pawns of the map, where `draw_width` means even chances
    "draw_width": MAP_TERMS,  # see `wdl_of`
    "noise": MAP_TERMS,
    "move_value": 4,  # what a loss of Q and of score weighs in endgame and middlegame
}
SCALAR_UNIT = 1e-6  # of the integers in the scalar groups


def _offsets() -> dict[str, int]:
    at, out = 0, {}
    for name, size in (TAPERED_GROUPS | MOVE_GROUPS | SCALAR_GROUPS).items():
        out[name] = at
        at += size
    return out


OFFSETS = _offsets()
TAPERED_COUNT = sum(TAPERED_GROUPS.values())
MOVE_COUNT = sum(MOVE_GROUPS.values())
FITTED_COUNT = TAPERED_COUNT + MOVE_COUNT + sum(SCALAR_GROUPS.values())
# Behind the fitted weights: how many of the moves that look best are searched again, how many plies deeper
VERIFIED_MOVES, VERIFIED_PLIES = FITTED_COUNT, FITTED_COUNT + 1
WEIGHT_COUNT = FITTED_COUNT + 2
VERIFICATIONS = ((0, 0), (6, 1), (3, 2), (3, 3))  # (moves, plies) by `verify_depth`
VERIFY_DEPTH = 1  # unless something else is asked for
