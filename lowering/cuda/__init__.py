"""CUDA back end: kernel IR to CUDA C++ to cubin, its resources and SASS, and its launch.

``emit`` writes the text, ``nvrtc`` compiles it (no GPU needed), ``resources`` and ``sass`` read
what came out, ``cache`` keeps cubins on disk, ``launch`` runs them on torch tensors.
"""
