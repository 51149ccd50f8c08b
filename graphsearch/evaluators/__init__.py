"""Evaluators: positions in, win-draw-loss and priors out. `protocol` says what one is, `factory` makes them.

`graph` and the rooms above it import it; it knows positions and records, not files or searches.
"""
