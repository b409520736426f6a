"""A kernel that fills a ring with rows by index, as experts read their tokens.

A stage is some rows of 128 bytes, swizzled as wgmma reads them, from anywhere in a table, and what
lies beside them (:mod:`wsched.bench.tma.beside`). They come by TMA or by ``cp.async``
(:mod:`wsched.bench.tma.fills`).
"""

from __future__ import annotations

from dataclasses import dataclass

from lowering.ground.errors import UnsupportedError
from lowering.kernel.kernel import Kernel
from lowering.target.ptx import WARPS, WIDEST_SWIZZLE
from wsched.bench.tma.beside import COLUMNS, WEIGHTS, Beside
from wsched.bench.tma.fills import Fill
from wsched.bench.tma.ring import RING_BYTES, Ring

__all__ = ["Gather", "gather_kernel"]

MOST_STAGES = 12
"""Of the ring."""

MOST_MULTIPLIED = 104
"""Rows whose products with both boxes of weights a warpgroup has registers for."""


@dataclass(frozen=True, slots=True)
class Gather:
    """How a stage is filled.

    Args:
        rows: by index, of a stage.
        fill: by what they come.
        beside: what else it has.

    Raises:
        UnsupportedError: rows that the copies do not make, or that are too many to be multiplied.
    """

    rows: int
    fill: Fill
    beside: Beside = Beside.NOTHING

    def __post_init__(self) -> None:
        """Refuse what there is no kernel for."""
        most = MOST_MULTIPLIED
        if self.multiplied and (self.rows % 8 or not 0 < self.rows <= most):
            raise UnsupportedError(f"products of {self.rows} rows", f"multiples of 8 up to {most}")
        self.fill.lines(self.rows)

    @property
    def multiplied(self) -> bool:
        """Whether somebody multiplies what lies in a stage."""
        return self.beside is Beside.PRODUCTS

    @property
    def stage_bytes(self) -> int:
        """Bytes that a stage receives."""
        return self.rows * WIDEST_SWIZZLE + self.beside.bytes

    @property
    def ring(self) -> Ring:
        """The ring that is filled."""
        size = self.fill.lines(self.rows) * WIDEST_SWIZZLE + self.beside.bytes
        stages = min(RING_BYTES // size, MOST_STAGES)
        empty = WARPS if self.multiplied else 1
        return Ring(stages, size, self.fill.arrivals(self.beside), empty)

    @property
    def name(self) -> str:
        """Of the kernel."""
        return f"tma_gather_{self.rows}_{self.fill.name}_{self.beside.value}"


def gather_kernel(g: Gather) -> Kernel:
    """The kernel: CTA ``i`` copies bands of rows whose numbers follow each other in ``order``,
    ``rounds`` of them from left to right, and ``share`` CTAs in a row the same ones. One warp notes
    in ``clock`` when it begins to wait for the first stage and when the last one was done with.

    Parameters: ``R``, ``K`` (rows and columns of the table ``T``; whole slices of ``COLUMNS``),
    ``N`` (numbers of rows, each box's as a box has them), ``rounds``, ``share``; with weights ``F``
    (rows of ``V``, of which CTAs in turn have both boxes), with products ``C`` (CTAs; ``D`` has
    sums over all slices of all bands).

    Raises:
        InternalError: the text is no well-formed kernel.
    """
    ring, lines = g.ring, g.fill.lines(g.rows)
    swizzle = f"swizzle {WIDEST_SWIZZLE}"
    declared = [
        "param R: i32", "param K: i32", "param N: i32", "param rounds: i32", "param share: i32",
        *g.fill.declared, "trace clock[2] (copies)",
        f"shared S: bf16[{ring.stages}][{lines}x{COLUMNS}] {swizzle} at 0",
    ]  # fmt: skip
    computed = [f"let bands: i32 = max(N // {g.rows}, 1)", f"let slices: i32 = K // {COLUMNS}"]
    if strip := g.beside.rows:
        at = ring.stages * lines * WIDEST_SWIZZLE
        declared += [
            "param F: i32", f"tensormap V: bf16[F, K] box {WEIGHTS}x{COLUMNS} {swizzle}",
            f"shared W: bf16[{ring.stages}][{strip}x{COLUMNS}] {swizzle} at {at}",
        ]  # fmt: skip
        computed.append(f"let strip: i32 = %ctaid.x % max(F // {strip}, 1)")
    if g.multiplied:
        declared += ["param C: i32", f"global D: f32[C * {strip}, {g.rows}] align 4"]
    drain = _multiply(g, ring) if g.multiplied else _drain(ring)
    load = g.fill.load(g.rows, ring, g.beside)
    return ring.kernel(g.name, declared, computed, (drain, f"role load warps 4 .. 8 {{{load}}}"))


def _drain(ring: Ring) -> str:
    """The role that gives stages back as they are."""
    computed, stage, parity = ring.step("at", "phase")
    return f"""
    role drain warps 0 .. 4 {{
      on %warpgroup.warp 0 {{
        elect {{
          for first in 0 .. {ring.stages} unroll {{
            mbarrier.arrive empty[first]
          }}
        }}
        stamp clock, copies, begin, 0
        for step in 0 .. rounds * slices carry (at: i32 = 0 -> end, phase: i32 = 0 -> even) {{
          mbarrier.wait full[at], phase
          elect {{
            mbarrier.arrive empty[at]
          }}
{computed}
          yield {stage}, {parity}
        }}
        stamp clock, copies, end, 0
      }}
    }}"""


def _multiply(g: Gather, ring: Ring) -> str:
    """The role that multiplies both boxes of weights by the rows, as the main loop of gate and up
    does: a stage is given back when the next one's products are issued and its own have ended.
    """
    computed, stage, parity = ring.step("at", "phase")
    of, strip = f"frag<f32, {WEIGHTS}x{g.rows}", g.beside.rows
    gate, gate_next = _products("gate", 0, of)
    up, up_flying = _products("up", WEIGHTS, of)
    before = f"select(at < 1, at + {ring.stages - 1}, at - 1)"
    return f"""
    role multiply warps 0 .. 4 {{
      elect {{
        for first in 0 .. {ring.stages} unroll {{
          mbarrier.arrive empty[first]
        }}
      }}
      no_gate: {of}> = frag.fill 0.0
      no_up: {of}> = frag.fill 0.0
      on %warpgroup.warp 0 {{ stamp clock, copies, begin, 0 }}
      for step in 0 .. rounds * slices carry (gate: {of}, async> = no_gate -> gate_end,
          up: {of}, async> = no_up -> up_end, at: i32 = 0 -> end, phase: i32 = 0 -> even) {{
        mbarrier.wait full[at], phase
        {g.fill.fence}
        wgmma.fence
        {gate}
        {up}
        wgmma.commit
        up_next: {of}, async> = wgmma.wait {up_flying}, 1
        if 0 < step {{ elect {{ mbarrier.arrive empty[{before}] }} }}
{computed}
        yield {gate_next}, up_next, {stage}, {parity}
      }}
      gate_sum: {of}> = wgmma.wait gate_end, 0
      up_sum: {of}> = wgmma.wait up_end, 0
      on %warpgroup.warp 0 {{ stamp clock, copies, end, 0 }}
      frag.store_global D[%ctaid.x * {strip}, 0], gate_sum
      frag.store_global D[%ctaid.x * {strip} + {WEIGHTS}, 0], up_sum
    }}"""


def _products(name: str, row: int, of: str) -> tuple[str, str]:
    """The products of a stage's rows with a box of weights, which begins at ``row``, and what their
    sums are called behind them.
    """
    found, acc = [], name
    for k in range(0, COLUMNS, 16):
        operands = f"{acc}, W[at, {row}, {k}], S[at, 0, {k}]"
        cleared = ", accumulate=0 < step" if k == 0 else ""
        acc = f"{name}_{k}"
        found.append(f"{acc}: {of}, async> = wgmma {operands}{cleared}")
    return "\n".join(found), acc
