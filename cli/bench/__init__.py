"""The figures of `graphsearch lab bench`: speed of moves, search and file."""
