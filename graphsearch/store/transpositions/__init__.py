"""Transposition entries in the file: the pieces that saves append, and the runs that left them.

`store/upkeep`, `graph`, `alphabeta` and `mate` import it."""
