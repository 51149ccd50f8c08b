"""Opening books that grow for weeks in a graph file."""
