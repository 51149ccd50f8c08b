"""One graph in many files, on many cores and machines: who owns a position, what shards tell each other.

A shard is a graph with its file; all of them go through a wave in step. Whoever searches, asks or serves a
cluster may import this room.
"""
