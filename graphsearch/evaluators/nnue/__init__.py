"""Networks of Stockfish, run by kernels of this program."""
