"""`python -m graphsearch`: the command line."""

import importlib
import sys

if __name__ == "__main__":
    # the folder is cli/, mapped to this name when the package is built; type checkers do not find it here
    try:
        main = importlib.import_module("graphsearch.cli").main
    except KeyboardInterrupt:  # `main` answers it from its first line on
        sys.exit(130)
    sys.exit(main())
