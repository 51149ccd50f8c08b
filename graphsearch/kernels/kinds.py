"""Evaluators by where they run, and gatherers by number; importable without Numba."""

EXTERNAL = 0  # outside the search loop, through `evaluate`
UNIFORM = 1  # inside: no knowledge
BUILTIN = 2  # inside: the built-in evaluation

CLASSIC, BUDGET, EXCLUDE, FLOW = 0, 1, 2, 3  # in the order of `params.GATHERERS`
