"""Imports games, books and positions into a graph file, and exports them again."""
