"""Whether wsched runs a part of what nvFuser was asked for: one answer for all who ask.

``wsched.install`` acts on it, ``explain`` tells it.
"""

from __future__ import annotations

from dataclasses import dataclass

from wsched.choose.nvfuser_cost import NvfuserCost
from wsched.front.cut.choose import Chosen, choose
from wsched.front.cut.epilogues import Take
from wsched.front.cut.predict import Sizes, nvfuser_us
from wsched.front.cut.segments import Cutter

__all__ = ["GAIN", "Verdict", "verdict"]

GAIN = 0.98
"""wsched takes what it is predicted to run in at most this part of nvFuser's time, call to call, if
the GPU is not kept busy longer. A bare matmul of large extents is predicted at 0.967."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What ``wsched.install`` does with a call.

    Args:
        chosen: the best cut, in which a matmul may be left to nvFuser.
        nvfuser: what nvFuser's own route is predicted to take.
    """

    chosen: Chosen
    nvfuser: NvfuserCost

    @property
    def reason(self) -> str:
        """Why nvFuser runs it all; empty if wsched takes a part."""
        ours, theirs = self.chosen.cost, self.nvfuser
        if ours.us > GAIN * theirs.us:
            return "predicted to be no faster by wsched"
        return "predicted to keep the GPU longer by wsched" if ours.gpu_us > theirs.gpu_us else ""

    def __str__(self) -> str:
        count = sum(s.matmul for s in self.chosen.cut.segments)
        kernels = f"{count} kernel{'s' if count > 1 else ''} of wsched's"
        cost = self.chosen.cost
        took = f"GPU {cost.gpu_us:.1f}, host {cost.host_us:.1f}"
        told = f"{cost.us:.1f} us ({took}), nvFuser alone {self.nvfuser.us:.1f} us"
        if not self.reason:
            return f"{kernels}, {told}"
        longer = f" (GPU {self.nvfuser.gpu_us:.1f})" * (cost.us <= GAIN * self.nvfuser.us)
        return f"nvFuser runs it all, {self.reason}: {kernels} would take {told}{longer}"


def verdict(cutter: Cutter, call: Sizes) -> Verdict:
    """What ``wsched.install`` does with a call.

    Args:
        cutter: of the definition.
        call: what is asked for.

    Raises:
        UnsupportedError: no cut can be run.
    """
    nvfuser = nvfuser_us(cutter.all(Take.NONE).segments, call)
    return Verdict(choose(cutter, call, may_leave=True, gpu_us=nvfuser.gpu_us), nvfuser)
