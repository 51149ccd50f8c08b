"""SQL that brings a graph file from one format to the next, applied in the order of the numbers."""
