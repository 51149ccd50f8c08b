"""What kernels are compiled with: the compiler's settings and cache, pointers, intrinsics.

Any room may import it; it imports none."""
