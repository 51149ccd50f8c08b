"""`graphsearch lab`: commands for research, measurements and rare repairs."""

from __future__ import annotations

from . import (
    bench,
    disagree,
    nodetypes,
    perft,
    query_find,
    query_moves,
    query_neighbourhood,
    query_players,
    query_ways,
    refresh,
    store_upkeep,
)
from .commands import group

app = group(
    "Commands for research, measurements and rare repairs.",
    sections={
        "Questions": (
            query_find.sql,
            disagree.disagree,
            query_moves.moves_of,
            query_ways.path,
            query_ways.parents,
            query_ways.transpositions,
            query_neighbourhood.neighbourhood,
            query_players.game_of,
        ),
        "Files": (refresh.refresh, store_upkeep.forecast, store_upkeep.split, store_upkeep.mend),
        "Measurements": (nodetypes.nodetypes, perft.perft, bench.bench),
    },
)
