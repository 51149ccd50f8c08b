"""Chess: positions as packed words, legal moves, keys, values, and readers of FEN, EPD and PGN."""
