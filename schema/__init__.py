"""The formats of a graph file: their descriptions and the SQL that makes its tables."""
