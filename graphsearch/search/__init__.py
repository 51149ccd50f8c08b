"""The search: parameters, PUCT, waves, backup, and the loop that runs until a limit.

Rooms that use a search import it."""
