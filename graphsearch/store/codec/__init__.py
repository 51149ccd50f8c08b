"""Encodes records into blocks of bytes and decodes them: layout, compression, kernels for many blocks."""
