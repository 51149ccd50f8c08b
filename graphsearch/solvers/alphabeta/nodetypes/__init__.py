"""Node types of alpha-beta: which are expected, which a search found, and how many a minimal tree has."""
