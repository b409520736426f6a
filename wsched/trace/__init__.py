"""Time lines of traced kernels: ``records`` takes them, ``spans`` has them, ``plot`` draws them."""
