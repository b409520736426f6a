"""Programs: several kernels, copies, workspaces and calls of others as one thing that runs.

``program`` has the types; ``verify``, ``lifetimes`` and ``properties`` judge them, ``text`` and
``parse`` write and read them, ``prepare`` and ``bind`` run them.
"""
