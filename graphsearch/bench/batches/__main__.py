"""`python -m graphsearch.bench.batches`: a worker of the benchmark, one task a line."""

from .crew import work

if __name__ == "__main__":
    work()
