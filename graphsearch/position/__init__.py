"""Chess itself: boards as packed words, legal moves, keys, values, and positions as people write them.

Any room but `jit` may import it; it imports `errors` and `jit`."""
