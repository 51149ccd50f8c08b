"""Workers of a book: processes that search different subtrees of one file at once."""
