"""Node types of alpha-beta: expected types, types that a search found, and counts in a minimal tree."""
