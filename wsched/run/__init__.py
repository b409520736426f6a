"""From a schedule to a launch: the compiled fusion, its arguments, the host's path."""
