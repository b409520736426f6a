"""How far the heuristic's choice is from the best schedule."""
