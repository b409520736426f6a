"""Bare matmuls beside others."""
