"""The benchmark: wsched beside other matmuls, in interleaved rounds whose ratios can be trusted.

``cli`` is the command, ``watch`` starts one worker process after another and ends one that hangs,
``worker`` measures in a fresh process, ``measure`` is the method, ``gpu`` what it asks of CUDA,
``operands`` what is computed with and compared, ``peer_*`` the other systems, ``environment`` where
it took place, ``results`` the statistics of all processes, ``report`` and ``plot`` what is shown.
"""

from __future__ import annotations
