"""`python -m graphsearch`: the command line."""

import importlib
import sys

if __name__ == "__main__":
    # the folder is cli/, mapped to this name when the package is built; type checkers do not find it here
    sys.exit(importlib.import_module("graphsearch.cli").main())
