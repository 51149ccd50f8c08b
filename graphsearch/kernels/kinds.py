"""Evaluators by where they run; importable without Numba."""

EXTERNAL = 0  # outside the search loop, through `evaluate`
UNIFORM = 1  # inside: no knowledge
BUILTIN = 2  # inside: the built-in evaluation
