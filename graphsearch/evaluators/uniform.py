"""`uniform`: no knowledge but the rules; for measuring the search alone."""

from __future__ import annotations

from ..store.record.provenance import EvaluatorIdentity
from .inside import BatchKernel, KernelEvaluator
from .protocol import EXTERNAL, UNIFORM


class UniformEvaluator(KernelEvaluator):
    """Calls every position win, draw or loss with 1/3 each, and every move equally good."""

    kernel_kind = UNIFORM
    threads = 1  # a second one would only wait
    identity = EvaluatorIdentity("uniform")

    @property
    def batch_kernel(self) -> BatchKernel:
        """The kernel that knows nothing."""
        from .uniform_kernel import SCRATCH_WORDS, evaluate_batch

        return BatchKernel(evaluate_batch, SCRATCH_WORDS)


class OutsideUniform(UniformEvaluator):
    """The same outside the kernels and without answers, to load the kernels that ask such evaluators."""

    kernel_kind = EXTERNAL
    identity = EvaluatorIdentity("idle")
