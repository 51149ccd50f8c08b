"""Benchmarks that are read once per release: one module for each subject, one runner, one table writer."""
