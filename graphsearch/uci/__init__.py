"""The search as a UCI engine: commands in, lines out, and a graph file as its memory."""
