"""How kernels are compiled, kept, loaded and called; pointers, types and intrinsics; only it imports Numba."""
