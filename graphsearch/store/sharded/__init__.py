"""A cluster's folder: its files, the owner of each position, and a store that reads them as one."""
