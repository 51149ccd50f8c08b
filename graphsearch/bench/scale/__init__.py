"""`graphsearch bench --scale`: everything that is done to a file, at sizes ten times apart.

`cli` imports `report` and `verdict`."""
