"""Matmuls with an epilogue beside others."""
