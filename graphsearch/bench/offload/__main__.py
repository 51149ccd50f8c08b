"""`python -m graphsearch.bench.offload PHASE FOLDER`: one part of the benchmark, in a process of its own."""

import sys

from ...workers.process import end_with_stdin
from .phases import main

if __name__ == "__main__":
    end_with_stdin()
    main(*sys.argv[1:])
