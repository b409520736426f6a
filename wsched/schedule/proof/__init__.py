"""When a schedule is legal: the transform graph, and the relation between two sides."""
