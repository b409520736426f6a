"""The machine with a clock: what a kernel does when, told before any GPU has run it."""
