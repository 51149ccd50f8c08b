"""Imports and exports: games, books and positions into a graph file, and out of it again."""
