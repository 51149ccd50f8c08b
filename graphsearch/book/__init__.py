"""Opening books that grow for weeks in a graph file: their positions, the next leaf to search, and why."""
