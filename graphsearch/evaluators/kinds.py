"""Where an evaluator runs: outside the search loop or inside its kernels."""

EXTERNAL = 0  # outside the search loop, through `evaluate`
UNIFORM = 1  # inside: no knowledge
BUILTIN = 2  # inside: this program's own networks
NNUE = 3  # inside: a network of Stockfish
