"""Benchmarks for each release: one module per subject, one runner, one table writer."""
