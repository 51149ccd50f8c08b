"""Answers the page's requests as JSON, each by a function of `query`, `book`, `store` or `exchange`."""
