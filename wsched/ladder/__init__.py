"""Ten schedules of one matmul, from a tile with synchronous loads to two consumers in clusters."""
