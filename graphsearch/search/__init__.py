"""The search: parameters, PUCT, waves, backup, and the loop that runs until a limit."""
