"""When a schedule is legal: its nest, the relation between two sides, and the edges it is of."""
