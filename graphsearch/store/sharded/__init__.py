"""A cluster's folder: which files make it, who owns a position, and reading all of them as one store.

Whoever may import `store` may import this.
"""
