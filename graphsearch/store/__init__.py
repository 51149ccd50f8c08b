"""The graph file: one SQLite database of sorted segments of node records, and plain tables beside them.

It knows records, not searches; one record is read without Numba.
"""
