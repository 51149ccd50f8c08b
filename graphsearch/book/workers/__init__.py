"""Workers of a book: processes that search different positions of one file at once."""
