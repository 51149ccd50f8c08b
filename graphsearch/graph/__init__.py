"""The graph in memory over its file: arena, heap, eviction, paging, saving, and the view of one node.

It knows records and files, not searches.
"""
