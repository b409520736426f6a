"""By what rows by index come into a ring: boxes of TMA, or copies of 16 bytes by threads."""

from __future__ import annotations

from dataclasses import dataclass

from lowering.ground.errors import UnsupportedError
from lowering.kernel.cp_async import CP_ASYNC_BYTES
from lowering.target.ptx import TMA_BOX_MAX, WARPGROUP, WARPS, WIDEST_SWIZZLE
from wsched.bench.tma.beside import COLUMNS, Beside
from wsched.bench.tma.ring import Ring

__all__ = ["Boxes", "Fill", "Pieces"]

AT_ONCE = 5
"""Row numbers that a thread reads before it issues their boxes, so that it waits for the first of
them only. Beside two warpgroups of 240 registers threads that load have 24: five numbers fit there,
of six and more ptxas spills what it computes in front of the loops."""


@dataclass(frozen=True, slots=True)
class Boxes:
    """Rows by TMA.

    Args:
        rows: of a box, which follow each other; the number of the first one is read.
        warps: that issue boxes, one thread of each, about as many each.
        held: whether a thread holds the numbers of a band's rows in registers, as many as it has
            boxes. Else it reads them for each stage.

    Raises:
        UnsupportedError: a box that TMA does not have, or warps that the warpgroup has not.
    """

    rows: int
    warps: int
    held: bool = False

    def __post_init__(self) -> None:
        """Refuse what there is not."""
        if not 0 < self.rows <= TMA_BOX_MAX:
            raise UnsupportedError(f"a box of {self.rows} rows", f"1 to {TMA_BOX_MAX}")
        if self.warps not in (1, 2, WARPS):
            raise UnsupportedError(f"{self.warps} warps that issue boxes", f"1, 2, {WARPS}")

    @property
    def name(self) -> str:
        """A word for it."""
        return f"box{self.rows}_warps{self.warps}" + "_held" * self.held

    @property
    def declared(self) -> tuple[str, ...]:
        """The table ``T`` of rows, and their numbers."""
        box = f"box {self.rows}x{COLUMNS} swizzle {WIDEST_SWIZZLE}"
        return f"tensormap T: bf16[R, K] {box}", "global order: s32[N] align 4"

    fence = ""
    """What a reader executes behind its wait."""

    def lines(self, rows: int) -> int:
        """Lines of shared memory for so many rows.

        Raises:
            UnsupportedError: boxes do not make them.
        """
        if rows % self.rows or rows // self.rows < self.warps:
            what = f"{rows} rows in boxes of {self.rows} by {self.warps} warps"
            raise UnsupportedError(what, "whole boxes, one for each warp at least")
        return rows

    def arrivals(self, beside: Beside) -> int:
        """Of a phase of a full barrier: each thread that issues tells of its bytes."""
        return self.warps

    def load(self, rows: int, ring: Ring, beside: Beside) -> str:
        """The role that fills stages; its first warp copies what lies beside the rows, too."""
        boxes, by = rows // self.rows, self.warps
        shares = (range(boxes * w // by, boxes * (w + 1) // by) for w in range(by))
        return "\n".join(
            f"on %warpgroup.warp {warp} {{{self._warp(rows, ring, beside, warp, share)}}}"
            for warp, share in enumerate(shares)
        )

    def _warp(self, rows: int, ring: Ring, beside: Beside, warp: int, boxes: range) -> str:
        """What one warp copies: boxes of these numbers."""
        first = warp == 0
        told = len(boxes) * self.rows * WIDEST_SWIZZLE + beside.bytes * first
        weights = beside.loads("stage0", "slice0") if first else ""
        read, copies = self._held(warp, boxes) if self.held else ("", self._read(warp, boxes))
        filled = f"""
          elect {{
            mbarrier.wait empty[stage{warp}], parity{warp}
            mbarrier.expect_tx full[stage{warp}], bytes={told}
            {weights}
            {copies}
          }}"""
        return _bands(rows, ring, filled, str(warp), read)

    def _held(self, warp: int, boxes: range) -> tuple[str, str]:
        """The numbers of all rows, and then all copies."""
        at = [i * self.rows for i in boxes]
        read = (f"row{warp}_{i}: i32 = ld.global.scalar order[first{warp} + {i}]" for i in at)
        return "\n".join(read), "\n".join(self._copy(warp, str(i), f"row{warp}_{i}") for i in at)

    def _read(self, warp: int, boxes: range) -> str:
        """Groups of :data:`AT_ONCE`, their numbers first, and a smaller one."""
        whole, rest = divmod(len(boxes), AT_ONCE)
        found = []
        if whole:
            first = f"({boxes.start} + group{warp} * {AT_ONCE})"
            group = self._group(warp, f"{warp}_", first, AT_ONCE)
            found.append(f"for group{warp} in 0 .. {whole} {{{group}}}")
        if rest:
            first = str(boxes.start + whole * AT_ONCE)
            found.append(self._group(warp, f"{warp}_rest", first, rest))
        return "\n".join(found)

    def _group(self, warp: int, tag: str, first: str, count: int) -> str:
        """So many boxes from ``first`` on; ``tag`` is of their names."""
        behind = [i * self.rows for i in range(count)]
        line, at = f"line{tag}", f"at{tag}"
        lines = [
            f"let {line}: i32 = {first} * {self.rows}",
            f"let {at}: i32 = first{warp} + {line}",
        ]
        lines += (f"row{tag}{i}: i32 = ld.global.scalar order[{at} + {i}]" for i in behind)
        lines += (self._copy(warp, f"{line} + {i}", f"row{tag}{i}") for i in behind)
        return "\n".join(["", *lines, ""])

    def _copy(self, warp: int, line: str, row: str) -> str:
        stage, source = f"stage{warp}", f"T[{row}, slice{warp} * {COLUMNS}]"
        return f"tma.load S[{stage}, {line}, 0], {source}, bar=full[{stage}]"


@dataclass(frozen=True, slots=True)
class Pieces:
    """Rows by ``cp.async``: the threads of a warpgroup copy 16 bytes at a time."""

    rows, warps, held = 1, WARPS, True
    """Of a copy, that issue them, and that have the numbers of their rows in registers."""

    name = f"pieces{CP_ASYNC_BYTES}"
    """A word for it."""

    declared = (f"global T: bf16[R, K] align {CP_ASYNC_BYTES}", "global order: s32[N, 1] align 4")
    """The table ``T`` of rows, and their numbers."""

    fence = "fence.proxy.async"
    """What a reader executes behind its wait: threads have written what wgmma reads."""

    def lines(self, rows: int) -> int:
        """Lines of shared memory for so many rows: whole groups of 64, zeros behind the rows."""
        return -(-rows // 64) * 64

    def arrivals(self, beside: Beside) -> int:
        """Of a phase of a full barrier: of each thread, and of who tells of the weights' bytes."""
        return WARPGROUP + (beside.bytes > 0)

    def load(self, rows: int, ring: Ring, beside: Beside) -> str:
        """The role that fills stages; one of its threads copies what lies beside the rows."""
        lines, stage, at = self.lines(rows), "stage_all", f"slice_all * {COLUMNS}"
        weights = f"""
          on %warpgroup.warp 0 {{
            elect {{
              mbarrier.expect_tx full[{stage}], bytes={beside.bytes}
              {beside.loads(stage, "slice_all")}
            }}
          }}"""
        filled = f"""
          mbarrier.wait empty[{stage}], parity_all
          {weights if beside.bytes else ""}
          cp.async S[{stage}, 0, 0], T[0, {at}], {lines}, {COLUMNS}, limit={rows}, index=rows
          cp.async.mbarrier.arrive.noinc full[{stage}]"""
        read = f"rows: frag<s32, {lines}x1> = frag.load_global order[first_all, 0], limit={rows}"
        return _bands(rows, ring, filled, "_all", read)


Fill = Boxes | Pieces


def _bands(rows: int, ring: Ring, filled: str, tag: str, read: str) -> str:
    """The loops over bands of ``rows`` rows and slices of them around what fills a stage. ``read``
    is done once a band; ``tag`` is of all names.
    """
    computed, stage, parity = ring.step(f"stage{tag}", f"parity{tag}", tag)
    band = f"carry (from{tag}: i32 = 0 -> end{tag}, of{tag}: i32 = 0 -> even{tag})"
    slices = (
        f"carry (stage{tag}: i32 = from{tag} -> last{tag}, parity{tag}: i32 = of{tag} -> odd{tag})"
    )
    return f"""
      let place{tag}: i32 = %ctaid.x // max(share, 1)
      let places{tag}: i32 = max(%nctaid.x // max(share, 1), 1)
      for round{tag} in 0 .. rounds {band} {{
        let first{tag}: i32 = (round{tag} * places{tag} + place{tag}) % bands * {rows}
        {read}
        for slice{tag} in 0 .. slices {slices} {{
{filled}
{computed}
          yield {stage}, {parity}
        }}
        yield last{tag}, odd{tag}
      }}"""
