"""What everything stands on: expressions, polynomials, element types, errors, files."""
