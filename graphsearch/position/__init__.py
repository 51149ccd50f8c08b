"""Chess itself: boards as packed words, legal moves, keys, values, and positions as people write them."""
