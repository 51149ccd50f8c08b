"""Evaluation in parallel: one evaluator in several processes, of this machine or of a Ray cluster."""

from .evaluator import LOCAL, RAY, PooledEvaluator, pooled, threads_per_worker

__all__ = ["LOCAL", "RAY", "PooledEvaluator", "pooled", "threads_per_worker"]
