"""The scheduling primitives, one a file: each returns a new fusion."""
