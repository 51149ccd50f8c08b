"""Principal variation search to a fixed depth, over the same file as the graph."""
