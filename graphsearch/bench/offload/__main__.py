"""`python -m graphsearch.bench.offload PHASE FOLDER`: one part of the benchmark, in a process of its own."""

import sys

from .phases import main

if __name__ == "__main__":
    main(*sys.argv[1:])
