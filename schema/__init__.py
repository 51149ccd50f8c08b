"""The format of a graph file: its description and the SQL that makes its tables."""
