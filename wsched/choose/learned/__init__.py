"""What schedules like it took beside what the laws predict: trees that were fitted to measurements.

The laws of :mod:`wsched.choose.cost_model` say why a schedule costs what it costs and leave out few
of those that are fast; which of these is the fastest they miss by a few percent, in ways that
nobody has found a law for. Trees put the first few in order (design/0041-measured-order.md).
"""
