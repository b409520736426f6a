"""Definitions cut into wsched's kernels and the rest: the one way for all doors (note 0025)."""
