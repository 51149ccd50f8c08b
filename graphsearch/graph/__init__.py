"""The graph in memory over its file: arena, heap, eviction, paging, saving, and the view of one node.

It does not depend on the search.
"""
