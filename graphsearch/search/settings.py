"""Writes a search's parameters, temperature and listed root moves into the arena, for its kernels."""

from __future__ import annotations

from collections.abc import Sequence

from ..graph.arena import Arena
from . import param_layout as layout
from .params import GATHERERS, SearchParams
from .puct_kernel import fill_exploration


def set_params(arena: Arena, params: SearchParams) -> None:
    """Makes the kernels search with `params`."""
    floats, ints = arena.arrays.floats, arena.arrays.ints
    floats[layout.CPUCT] = params.cpuct
    floats[layout.CPUCT_BASE] = params.cpuct_base
    floats[layout.CPUCT_FACTOR] = params.cpuct_factor
    floats[layout.FPU_VALUE] = params.fpu_value
    floats[layout.CATCH_UP_RATIO] = params.catch_up_ratio
    floats[layout.WAVE_SHARE] = params.max_wave_share
    fill_exploration(floats)
    ints[layout.SCHEME] = GATHERERS.index(params.gather)
    ints[layout.COLLISION_EVENTS] = params.max_collision_events
    ints[layout.COLLISION_VISITS] = params.max_collision_visits


def set_listed(arena: Arena, edges: Sequence[int] | None) -> None:
    """Lets searches take only these edges of the root, counted in descending P; None: all."""
    ints = arena.arrays.ints
    ints[layout.RESTRICTED] = edges is not None
    ints[layout.LISTED :] = 0
    ints[[layout.LISTED + k for k in edges or ()]] = 1
