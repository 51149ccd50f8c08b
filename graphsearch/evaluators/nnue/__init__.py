"""Networks of Stockfish, run by kernels of this program.

The factory imports it, and so does a tool that wants a network's scores; it imports nothing above `evaluators`.
"""
