"""Looking after a graph file: verify, salvage, compact, prune, backup, forecast.

`cli` and rooms that rewrite whole files import it."""
