"""`lc0:FILE`: a Leela Chess Zero network, run by onnxruntime."""
