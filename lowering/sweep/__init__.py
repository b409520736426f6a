"""Kernels of sweeps: pointwise operations that no matmul is beside."""
