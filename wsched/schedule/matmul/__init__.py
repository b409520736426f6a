"""The matmul scheduler: parameters, their limits, and the primitives that they become."""
