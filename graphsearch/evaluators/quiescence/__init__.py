"""The quiescence search of evaluators that run in kernels, over any static evaluation.

Evaluators and the alpha-beta search may import it; it knows none of them.
"""
