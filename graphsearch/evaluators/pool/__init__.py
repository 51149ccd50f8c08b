"""Evaluation in parallel: one evaluator in several processes, of this machine or of a Ray cluster."""

from .evaluator import LOCAL, RAY, PooledEvaluator, check_place, pooled, threads_per_worker

__all__ = ["LOCAL", "RAY", "PooledEvaluator", "check_place", "pooled", "threads_per_worker"]
