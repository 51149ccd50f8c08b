"""The graph file: one SQLite database of sorted segments of node records, and plain tables beside them.

The package handles records, not searches.
"""
