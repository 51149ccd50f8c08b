"""Finds positions in the file: the catalog of segments, bloom filters, and the lookup of one record."""
