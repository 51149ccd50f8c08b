"""Mate proofs: a proof-number search for the shortest mate of either side."""
