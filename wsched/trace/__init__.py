"""Time lines of traced kernels: ``stamps`` takes them, ``spans`` has them, ``plot`` draws them."""
