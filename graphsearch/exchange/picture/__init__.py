"""Pictures of a neighbourhood or a book, for papers and for Graphviz."""
