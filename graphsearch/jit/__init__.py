"""Compiles, caches, loads and calls kernels; bundles, pointers, types. Only this room imports Numba."""
