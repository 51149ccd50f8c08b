"""Studies: games with variations, comments and glyphs, kept in a graph file; and notes on positions."""
