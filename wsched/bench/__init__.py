"""The benchmark: wsched beside other matmuls, in interleaved rounds whose ratios can be trusted.

``cli`` is the command, ``watch`` starts one worker process after another and ends one that hangs,
``worker`` measures in a fresh process, ``measure`` is the method, ``gpu`` what it asks of CUDA,
``peer_*`` the other systems, ``results`` the statistics of all processes, ``report`` and ``plot``
what is shown.
"""

from __future__ import annotations
