"""How kernels are compiled, kept, loaded and called; pointers and intrinsics; only it imports Numba.

Any room may import it; it imports none."""
