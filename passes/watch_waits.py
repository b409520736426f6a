"""Let waits end: a bound on every wait for an mbarrier or a counter, and a place for what they say.

Requires: nothing.
Guarantees: where a bound is asked for, the kernel declares ``watch``. The statements are what they
were: what is emitted for a wait counts the time, and one that takes too long writes down who waits
for what (``lowering.kernel.waits``) and ends the kernel.

A kernel that hangs can be asked nothing, and what it holds is lost with its context. So the words
are the host's: pinned memory, which outlives the context.

Anywhere, since it moves nothing.
"""

from __future__ import annotations

from lowering.kernel.kernel import Kernel, Watch
from lowering.kernel.visit import Names
from passes.options import LoweringOptions

__all__ = ["watch_waits"]


def watch_waits(kernel: Kernel, options: LoweringOptions) -> Kernel:
    """The kernel with a watch; as it is without the option.

    before::

        kernel k ... {
          mbarrier full[4] arrivals 1

    after::

        kernel k ... {
          mbarrier full[4] arrivals 1
          watch stuck nanoseconds 1000000000
    """
    if not options.watchdog:
        return kernel
    return kernel.declare(Watch(Names(kernel).new("stuck"), options.watchdog))
