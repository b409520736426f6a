"""Matmuls drawn at random from a list, beside cuBLAS: nothing is dropped, nothing was chosen."""
