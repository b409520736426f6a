"""Kernels of summaries: reductions of rows or columns that no matmul is beside."""
