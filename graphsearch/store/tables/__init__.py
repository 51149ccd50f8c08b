"""The plain tables that any SQLite tool reads: evaluators, runs, roots, games, books, studies."""
