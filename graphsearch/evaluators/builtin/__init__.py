"""`builtin`: this program's own networks, evaluated by kernels; nothing to install or download."""
