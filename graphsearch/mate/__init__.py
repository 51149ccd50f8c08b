"""Mate proofs: a proof-first search that says how many moves a mate takes, or that it has found none."""
