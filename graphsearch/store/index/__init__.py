"""Where in the file a position may be: the catalog of segments, bloom filters, and the lookup of one record.

The rest of `store` imports it; kernels that page records in ask `locate_kernel`."""
