"""Records to blocks of bytes and back: the layout, its compression, and the kernels for many blocks at once.

The rest of `store` imports it, and what reads whole files."""
