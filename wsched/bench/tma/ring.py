"""The kernel around two roles that fill and drain a ring: its barriers and their life."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lowering.ground.errors import InternalError
from lowering.kernel.kernel import Kernel
from lowering.kernel.parse import parse_kernel
from lowering.kernel.verify import verify
from passes.pipeline import FINAL

__all__ = ["RING_BYTES", "Ring"]

RING_BYTES = 192 * 1024
"""Shared memory of the stages of a ring, at most."""


@dataclass(frozen=True, slots=True)
class Ring:
    """A ring of stages in front of its barriers, in a CTA of two warpgroups.

    Args:
        stages: of the ring.
        stage_bytes: of a stage, of all its buffers together.
        full: arrivals that say that a stage is full, beside its bytes.
        empty: arrivals that give it back.
        cluster: CTAs of a cluster.
    """

    stages: int
    stage_bytes: int
    full: int
    empty: int
    cluster: int = 1

    def kernel(
        self, name: str, declared: Sequence[str], computed: Sequence[str], roles: Sequence[str]
    ) -> Kernel:
        """The kernel: a CTA on each multiprocessor.

        Args:
            name: of the kernel.
            declared: parameters, tensors and buffers, a line each; ``full`` and ``empty`` follow.
            computed: what every thread knows when roles begin.
            roles: who drains and who fills.

        Raises:
            InternalError: these are no well-formed kernel.
        """
        kernel = parse_kernel(self._text(name, declared, computed, roles))
        if problems := verify(kernel, FINAL[kernel.target.arch]):
            raise InternalError("bench tma", "; ".join(problems))
        return kernel

    def _text(
        self, name: str, declared: Sequence[str], computed: Sequence[str], roles: Sequence[str]
    ) -> str:
        sync, at = (
            "cluster.sync" if self.cluster > 1 else "cta.sync",
            self.stages * self.stage_bytes,
        )
        lines = "\n".join
        return f"""
kernel {name} threads 256 cluster {self.cluster} grid sms // {self.cluster} * {self.cluster} {{
  {lines(declared)}
  mbarrier full[{self.stages}] arrivals {self.full} at {at}
  mbarrier empty[{self.stages}] arrivals {self.empty} at {at + 8 * self.stages}
  {lines(computed)}
  on %warp 0 {{
    elect {{
      for init in 0 .. {self.stages} unroll {{
        mbarrier.init full[init], {self.full}
        mbarrier.init empty[init], {self.empty}
      }}
      fence.mbarrier_init
    }}
  }}
  {sync}
  roles {{
{lines(roles)}
  }}
  {sync}
  on %warp 0 {{
    elect {{
      for inval in 0 .. {self.stages} unroll {{
        mbarrier.inval full[inval]
        mbarrier.inval empty[inval]
      }}
    }}
  }}
}}
"""

    def step(self, stage: str, parity: str, tag: str = "") -> tuple[str, str, str]:
        """The step behind one with this stage and parity: what computes it, its stage, its parity;
        ``tag`` makes names that a kernel has once.
        """
        following, wraps = f"next{tag}", f"wraps{tag}"
        computed = f"""
        let {following}: i32 = {stage} + 1
        let {wraps}: pred = {self.stages} <= {following}"""
        return computed, f"select({wraps}, 0, {following})", f"{parity} ^ select({wraps}, 1, 0)"
