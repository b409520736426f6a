"""Cooperative or ping-pong."""
