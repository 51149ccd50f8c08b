"""The figures of `graphsearch bench`: speed of moves, search and file."""
