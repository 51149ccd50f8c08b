"""The plain tables that any SQLite tool reads: evaluators, runs, roots, games, books, opinions.

The rest of `store` imports it, and rooms that read or write a table."""
