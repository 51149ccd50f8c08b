"""Evaluators: positions in, win-draw-loss and priors out. `protocol` defines one, `factory` makes them.

They know positions and records, not files or searches.
"""
