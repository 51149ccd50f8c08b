"""`lc0:FILE`: a network of Leela Chess Zero, run by onnxruntime."""
