"""`builtin`: this program's own networks, evaluated in kernels; nothing to install or download."""
