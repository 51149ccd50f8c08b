"""How kernels are compiled, kept, loaded and called; pointers, types, intrinsics. Only it imports Numba."""
