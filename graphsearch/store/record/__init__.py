"""Facts about one position: the node record, its bounds, its source, and transposition entries.

Each layout is defined here once, for Python and for kernels.
"""
