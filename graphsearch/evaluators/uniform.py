"""`uniform`: an evaluator without knowledge, for measuring the search alone."""

from __future__ import annotations

from ..store.provenance import EvaluatorIdentity
from .inside import BatchKernel, KernelEvaluator
from .protocol import EXTERNAL, UNIFORM


class UniformEvaluator(KernelEvaluator):
    """Gives win, draw and loss 1/3 each, and all moves the same prior."""

    kernel_kind = UNIFORM
    identity = EvaluatorIdentity("uniform")

    def __init__(self, *, threads: int = 0) -> None:
        """Sets the number of threads of a search, 0 for all cores."""
        self.threads = threads

    @property
    def batch_kernel(self) -> BatchKernel:
        """The uniform kernel."""
        from .uniform_kernel import SCRATCH_WORDS, evaluate_batch

        return BatchKernel(evaluate_batch, SCRATCH_WORDS)


class OutsideUniform(UniformEvaluator):
    """A `UniformEvaluator` outside the search kernels, used to load the kernels for external evaluators."""

    kernel_kind = EXTERNAL
    identity = EvaluatorIdentity("idle")
