"""The graph in memory over its file: arena, eviction, reading, saving, the view of one node, and sweeps.

It does not depend on the search.
"""
