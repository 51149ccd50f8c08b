"""Quiescence search for kernel evaluators, over any static evaluation."""
