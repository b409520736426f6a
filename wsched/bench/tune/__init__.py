"""Measure a shortlist and keep the fastest."""
