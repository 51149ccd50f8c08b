"""Opening books that grow for weeks in a graph file: what belongs in, which leaf is next, and why.

`cli` imports it."""
