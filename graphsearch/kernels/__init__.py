"""Every Numba function of the package and nothing else; import only where a search or a bulk job runs."""
