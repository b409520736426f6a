"""Kernel IR to kernel IR: one pass a file, one function of the file's name in it."""
