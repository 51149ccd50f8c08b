"""A static site of a book or of the positions below one: board, moves, graph and values, without a server."""
