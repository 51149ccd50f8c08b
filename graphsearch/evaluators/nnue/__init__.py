"""Networks of Stockfish, run by kernels of this program.

The factory imports it, and so may tools that want scores; it imports nothing above `evaluators`.
"""
