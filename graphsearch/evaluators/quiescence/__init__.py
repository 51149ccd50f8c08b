"""The quiescence search of evaluators that run in kernels, over any static evaluation."""
