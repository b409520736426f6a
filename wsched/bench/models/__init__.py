"""``wsched bench models``: what of whole modules and definitions runs in wsched's kernels."""
