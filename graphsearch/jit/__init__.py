"""Compiles, caches, loads and calls kernels; pointers, types, intrinsics. Only this room imports Numba."""
