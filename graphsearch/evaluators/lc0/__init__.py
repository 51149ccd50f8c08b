"""`lc0:FILE`: a network of Leela Chess Zero, run by onnxruntime.

    packed positions -> planes.py -> session.py (onnxruntime) -> policy.py -> WDL and priors
    FILE.pb.gz -> wire.py -> weights.py -> convert.py -> an ONNX model;  FILE.onnx is one already

Needs the extra `graphsearch[lc0]`; onnxruntime is imported when a network is opened, not before.
"""

from .evaluator import DEFAULT_TEMPERATURE, Lc0Evaluator

__all__ = ["DEFAULT_TEMPERATURE", "Lc0Evaluator"]
