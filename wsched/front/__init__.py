"""What users call: compile, execute, explain."""
