"""A static site of a book, or of what follows a position: board, moves, graph and values, without a server.

`cli` imports it."""
