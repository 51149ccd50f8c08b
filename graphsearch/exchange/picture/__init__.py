"""Pictures of a neighbourhood or a book, for papers and for Graphviz.

`cli` imports it, and whoever draws elsewhere takes its colours and widths."""
