"""A cluster's folder: its files, the owner of each position, and all of them read as one store."""
