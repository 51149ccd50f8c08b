"""Answers of the page's requests as JSON, each from a function of `query`, `book`, `store` or `exchange`."""
