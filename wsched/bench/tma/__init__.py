"""What the copy engine does: boxes into shared memory, and nothing else."""
