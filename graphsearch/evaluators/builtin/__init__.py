"""`builtin`: this program's own evaluation with quiescence, in kernels; nothing to install or download.

`factory`, `search` and `alphabeta` import it."""
