"""Facts about one position: the node record, its bounds, its source, and transposition entries.

Each layout stands here once, for Python and for kernels.
"""
