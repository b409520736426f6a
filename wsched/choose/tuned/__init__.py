"""Schedules that were measured: tables of winners, which the heuristic reads.

The tables beside this file are shipped; ``wsched tune`` writes the user's (design/0015-tuning.md).
"""
