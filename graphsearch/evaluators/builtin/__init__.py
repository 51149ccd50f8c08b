"""`builtin`: this program's own networks, evaluated in kernels; nothing to install or download.

The factory imports it, and the tools that train the networks see positions through its kernels.
"""
