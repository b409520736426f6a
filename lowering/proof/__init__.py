"""Proofs about final kernels, for all sizes; design/0033-kernel-proof.md says from what."""
