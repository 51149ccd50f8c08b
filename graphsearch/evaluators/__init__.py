"""Evaluators: positions in, win-draw-loss and priors out. `protocol` defines them, `factory` makes them.

They depend on positions and records, not on graph files or searches.
"""
