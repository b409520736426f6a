"""From a scheduled fusion to a tile-level kernel: loop nests and what stands in them."""
