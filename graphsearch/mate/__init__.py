"""Mate proofs: a proof-number search that says how many moves a mate takes, or that it has found none.

`uci` and `cli` import it."""
