"""What the page asks and is answered: requests in, JSON out. Each answer is that of a function of `query`,
`book`, `store` or `exchange`; the rest of `graphsearch.web` may import it.
"""
