"""`graphsearch bench --scale`: every operation on a file, at sizes ten times apart."""
