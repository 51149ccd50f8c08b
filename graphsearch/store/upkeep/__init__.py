"""Maintenance of a graph file: verify, salvage, compact, prune, backup."""
