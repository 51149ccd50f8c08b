"""`graphsearch bench --offload`: a search larger than its memory, and the file below it."""
