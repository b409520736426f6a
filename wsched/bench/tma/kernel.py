"""A kernel that fills a ring by TMA and drains it without reading what lies there."""

from __future__ import annotations

from dataclasses import dataclass

from lowering.ground.errors import UnsupportedError
from lowering.ground.types import Swizzle
from lowering.kernel.kernel import Kernel
from lowering.kernel.tensors import PROMOTIONS
from lowering.target.ptx import TMA_BOX_MAX
from wsched.bench.tma.ring import RING_BYTES, Ring

__all__ = ["LINES", "Copies", "ring_kernel"]

LINES = 128
"""Lines of a stage: the rows of a tile."""

MOST_STAGES = 16
"""Stages of the ring, at most."""

_ELEMENT = 2


@dataclass(frozen=True, slots=True)
class Copies:
    """How a stage of :data:`LINES` lines is copied.

    Args:
        width: bytes of a line.
        swizzle: span in bytes, 0 for none; a line is no wider.
        promotion: bytes that the L2 fetches at least, one of ``PROMOTIONS``.
        cluster: CTAs that copy a part of each stage each, to all of them.

    Raises:
        UnsupportedError: copies that TMA does not have.
    """

    width: int
    swizzle: int
    promotion: int
    cluster: int

    def __post_init__(self) -> None:
        """Refuse what TMA does not have."""
        spans = tuple(s.value for s in Swizzle)
        if self.swizzle not in spans:
            raise UnsupportedError(f"a swizzle of {self.swizzle}", ", ".join(map(str, spans)))
        if self.promotion not in PROMOTIONS:
            known = ", ".join(map(str, PROMOTIONS))
            raise UnsupportedError(f"a promotion of {self.promotion}", known)
        most = self.swizzle or TMA_BOX_MAX * _ELEMENT
        if not 0 < self.width <= most or self.width % 16:
            raise UnsupportedError(
                f"lines of {self.width} bytes with a swizzle of {self.swizzle}",
                f"multiples of 16 up to {most}",
            )
        if self.cluster not in (1, 2, 4, 8):
            raise UnsupportedError(f"a cluster of {self.cluster}", "1, 2, 4, 8")

    @property
    def stage_bytes(self) -> int:
        """Bytes of a stage."""
        return LINES * self.width

    @property
    def columns(self) -> int:
        """Elements of a line."""
        return self.width // _ELEMENT

    @property
    def stages(self) -> int:
        """Stages of the ring."""
        return min(RING_BYTES // self.stage_bytes, MOST_STAGES)

    @property
    def name(self) -> str:
        """Of the kernel; the promotion is the tensor map's, not the code's."""
        return f"tma_ring_{self.width}_swizzle{self.swizzle}_cluster{self.cluster}"


def ring_kernel(copies: Copies) -> Kernel:
    """The kernel: CTA ``i`` copies bands of ``LINES`` rows of ``T`` from left to right, ``rounds``
    of them, and ``share`` CTAs in a row the same ones at the same time.

    Parameters: ``M``, ``K`` (rows and columns of ``T``; what is left beside whole boxes is not
    copied), ``rounds``, ``share`` (a multiple of the cluster).

    Raises:
        InternalError: the text below is no well-formed kernel.
    """
    c = copies
    ring = Ring(c.stages, c.stage_bytes, full=1, empty=c.cluster, cluster=c.cluster)
    swizzle = f" swizzle {c.swizzle}" if c.swizzle else ""
    box = f"box {LINES // c.cluster}x{c.columns}{swizzle} promotion {c.promotion}"
    declared = (
        "param M: i32", "param K: i32", "param rounds: i32", "param share: i32",
        f"tensormap T: bf16[M, K] {box}",
        f"shared S: bf16[{c.stages}][{LINES}x{c.columns}]{swizzle} at 0",
    )  # fmt: skip
    computed = (f"let bands: i32 = max(M // {LINES}, 1)", f"let boxes: i32 = K // {c.columns}")
    return ring.kernel(c.name, declared, computed, (_drain(c, ring), _load(c, ring)))


def _drain(c: Copies, ring: Ring) -> str:
    """The role that gives stages back."""
    computed, stage, parity = ring.step("stage", "parity")
    return f"""
    role drain warps 0 .. 4 {{
      on %warpgroup.warp 0 {{
        elect {{
          for first in 0 .. {c.stages} unroll {{
{_arrivals(c, "first")}
          }}
        }}
        for step in 0 .. rounds * boxes carry (stage: i32 = 0 -> last, parity: i32 = 0 -> even) {{
          mbarrier.wait full[stage], parity
          elect {{
{_arrivals(c, "stage")}
          }}
{computed}
          yield {stage}, {parity}
        }}
      }}
    }}"""


def _arrivals(c: Copies, stage: str) -> str:
    """A stage is given back to every CTA that writes into it."""
    told = [f"mbarrier.arrive empty[{stage}]"]
    told += [
        f"mbarrier.arrive empty[{stage}], cta=(%cluster.ctarank + {i}) % {c.cluster}, "
        "order=relaxed.cluster"
        for i in range(1, c.cluster)
    ]
    return "\n".join(told)


def _load(c: Copies, ring: Ring) -> str:
    """The role that copies."""
    slice_ = LINES // c.cluster
    own = f" + %cluster.ctarank * {slice_}" if c.cluster > 1 else ""
    source = f"band * {LINES}{own}, box * {c.columns}"
    to_all = f", multicast={2**c.cluster - 1}, ctas={c.cluster}" if c.cluster > 1 else ""
    relaxed = ", order=relaxed.cluster" if c.cluster > 1 else ""
    computed, stage, parity = ring.step("at", "phase", "0")
    return f"""
    role load warps 4 .. 8 {{
      on %warpgroup.warp 0 {{
        let place: i32 = %ctaid.x // max(share, 1)
        let places: i32 = max(%nctaid.x // max(share, 1), 1)
        for round in 0 .. rounds carry (stage0: i32 = 0 -> last0, parity0: i32 = 0 -> even0) {{
          let band: i32 = (round * places + place) % bands
          for box in 0 .. boxes carry (at: i32 = stage0 -> last1, phase: i32 = parity0 -> even1) {{
            elect {{
              mbarrier.wait empty[at], phase{relaxed}
              mbarrier.expect_tx full[at], bytes={c.stage_bytes}
              tma.load S[at, 0{own}, 0], T[{source}], bar=full[at]{to_all}
            }}
{computed}
            yield {stage}, {parity}
          }}
          yield last1, even1
        }}
      }}
    }}"""
