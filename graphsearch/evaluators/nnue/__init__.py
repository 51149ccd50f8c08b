"""Stockfish networks, evaluated by this program's kernels."""
