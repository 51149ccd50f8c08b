"""One graph in many files, on many cores and machines: owners of positions, messages between shards.

A shard is a graph with its file; all shards run each wave in step.
"""
