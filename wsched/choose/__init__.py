"""Which schedule, and which way: cost model, heuristics, tuned tables, routes."""
