"""`graphsearch bench --batches`: how four gatherers fill large batches, and what that costs."""
