"""`python -m graphsearch.bench.scale PHASE FOLDER NODES`: one phase at one size, in a process of its own."""

import sys

from .phases import main

if __name__ == "__main__":
    main(*sys.argv[1:])
