"""Transposition entries in the file: the pieces that saves append, and the runs that computed them."""
