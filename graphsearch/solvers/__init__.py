"""Solvers: proofs of mate, and alpha-beta to a fixed depth with its node types."""
