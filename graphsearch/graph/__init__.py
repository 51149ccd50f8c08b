"""The graph in memory over its file: arena, heap, eviction, paging, saving, and the view of one node.

`search` and the rooms above it import it. It knows records and files, not how they are searched."""
