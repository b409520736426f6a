"""The benchmark: wsched beside other matmuls, in interleaved rounds whose ratios can be trusted.

``cli`` is the command, ``watch`` starts one worker process after another and ends one that hangs,
``worker`` measures in a fresh process, ``measure`` is the method, ``gpu`` what it asks of CUDA,
``operands`` what is computed with and compared, ``peer_*`` the other systems, ``environment`` where
it took place, ``results`` the statistics of all processes, ``report`` and ``plot`` what is shown.

``pingpong*`` compare the two kinds of persistent kernels with epilogues (``epilogue``, ``fused``),
``schedules*`` every schedule of a ``ranking`` at shapes of ``layers``; both by the same method.
``queue`` compares tiles dealt out in turn and at run time, while ``hold`` holds multiprocessors.
"""

from __future__ import annotations
