"""Let several warpgroups share each slice of K: every one multiplies a part of it, all add up.

Requires: one section with threads, of one warpgroup, whose main loop stands in the loop over tiles
and multiplies slices of a multiple of ``slice_groups`` instructions' K.
Guarantees: that section has so many warpgroups. Of each slice, which all of them wait for and let
go of as before, each reads and multiplies a part of its own. Behind the main loop all but the first
one store what they have summed; all meet, and load that, so that they take the same way; the first
one adds it to its own, in one order, and computes the epilogue.

Few rows of a tile and little of it in each SM are what it is for: a warpgroup has 64 rows at least,
and one by itself neither computes operands nor waits for them fast enough. Parts of K on other CTAs
do the same through the L2, with counters and a number to be taken first (``synchronize_partials``).

Before ``warp_specialize``, first of all: to the others these are warpgroups as any.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lowering.ground.dtypes import DType
from lowering.ground.errors import UnsupportedError
from lowering.ground.expr import ZERO, Expr, Var
from lowering.kernel.columns import chain_of
from lowering.kernel.kernel import Kernel, NamedBarrierArray, SharedBuffer
from lowering.kernel.nodes import (
    BarSync,
    Body,
    Consume,
    For,
    Frag,
    FragLoadGlobal,
    FragPointwise,
    If,
    LdShared,
    MmaTile,
    NamedBarrierRef,
    Produce,
    Section,
    SmemRef,
    Stmt,
    StShared,
)
from lowering.kernel.visit import Names, map_bodies, rename, walk
from lowering.target import ptx
from passes.options import LoweringOptions
from passes.swizzle_shared import widest_swizzle

__all__ = ["share_slices"]


def share_slices(kernel: Kernel, options: LoweringOptions) -> Kernel:
    """Warpgroups share slices.

    before::

        section compute groups 1 as group {
          for tile in 0 .. tiles carry (before: frag<f32, 64x16> = zero -> last) {
            for k in 0 .. n carry (acc: frag<f32, 64x16> = before -> total) {
              consume ring, tile * n + k
              left: frag<bf16, 64x128> = ldmatrix A_s[0, group * 64, 0]
              acc1: frag<f32, 64x16> = mma.tile acc, left, B_s[0, 0, 0], 128, 0 < k
              yield acc1
            }
            store.tile D[...], total
            yield total
          }
        }

    after, with two::

        shared sums: f32[1][64x16] swizzle 64
        named_barrier sums_sync[1] threads 256
        section compute groups 2 as share {
          for tile in 0 .. tiles carry (before: frag<f32, 64x16> = zero -> last) {
            for k in 0 .. n carry (acc: frag<f32, 64x16> = before -> total) {
              consume ring, tile * n + k
              left: frag<bf16, 64x64> = ldmatrix A_s[0, 0, share * 64]
              acc1: frag<f32, 64x16> = mma.tile acc, left, B_s[0, 0, share * 64], 64, 0 < k
              yield acc1
            }
            if 0 < share { st.shared sums[share - 1, 0, 0], total }
            bar.sync sums_sync[0]
            part: frag<f32, 64x16> = ld.shared sums[0, 0, 0]
            whole: frag<f32, 64x16> = frag.pointwise add, total, part
            bar.sync sums_sync[0]
            if share == 0 { store.tile D[...], whole }
            yield total
          }
        }

    Raises:
        UnsupportedError: sections, products or sums of another form; a ring that has a step behind
            the main loop, where one warpgroup is left, while all of a section let a stage go.
    """
    if options.slice_groups == 1:
        return kernel
    sections = [s for s in kernel.body if isinstance(s, Section) and s.group is not None]
    if len(sections) != 1 or sections[0].groups != 1:
        raise _unlike(f"{len(sections)} sections of {[s.groups for s in sections]} warpgroups")
    shared = _Shared.of(kernel, sections[0], options.slice_groups)
    found = (shared.section(s) if s is sections[0] else s for s in kernel.body)
    body = tuple(_with_registers(s, options.slice_registers) for s in found)
    kernel = kernel.declare(shared.sums, shared.barrier)
    threads = kernel.threads + (options.slice_groups - 1) * ptx.WARPGROUP
    return replace(kernel, threads=threads, body=body)


def _with_registers(stmt: Stmt, pair: tuple[int, int] | None) -> Stmt:
    if pair is None or not isinstance(stmt, Section):
        return stmt
    return replace(stmt, registers=pair[stmt.group is not None])


def _unlike(what: str) -> UnsupportedError:
    legal = "one accumulator of fp32 or int32, of one warpgroup's products of whole slices"
    return UnsupportedError(f"warpgroups that share slices of K, with {what}", legal)


@dataclass(frozen=True, slots=True)
class _Shared:
    """Who shares, and where their sums meet.

    Args:
        kernel: as it is.
        names: of it.
        groups: that share.
        share: which of them executes.
        sums: what each but the first one has summed.
        barrier: of all of them.
    """

    kernel: Kernel
    names: Names
    groups: int
    share: Var
    sums: SharedBuffer
    barrier: NamedBarrierArray

    @staticmethod
    def of(kernel: Kernel, section: Section, groups: int) -> _Shared:
        """For the sums of a section."""
        products = [s for s in walk(section.body) if isinstance(s, MmaTile)]
        if len(products) != 1:
            raise _unlike(f"{len(products)} products of a slice")
        kind, names = products[0].out.type, Names(kernel)
        if kind.dtype not in (DType.F32, DType.S32):
            raise _unlike(f"sums of {kind.dtype.value}")
        name, shape = names.new("sums"), (kind.rows, kind.cols)
        swizzle = widest_swizzle(name, kind.dtype, kind.cols)
        barrier = NamedBarrierArray(names.new("sums_sync"), 1, groups * ptx.WARPGROUP)
        return _Shared(
            kernel, names, groups, Var(names.new("share")),
            SharedBuffer(name, kind.dtype, groups - 1, shape, swizzle), barrier,
        )  # fmt: skip

    def section(self, section: Section) -> Section:
        """The section of all that share."""
        assert section.group is not None
        body = self.body(rename(section.body, {section.group: ZERO}))
        return replace(section, body=body, groups=self.groups, group=self.share)

    def body(self, body: Body) -> Body:
        """A statement list, around the main loop or with it."""
        main = next((n for n, s in enumerate(body) if self._is_main(s)), None)
        if main is None:
            return tuple(map_bodies(s, self.body) for s in body)
        loop, behind = body[main], body[main + 1 :]
        if stepped := [s for s in walk(behind) if isinstance(s, Produce | Consume)]:
            raise _unlike(f"a step of {stepped[0].ring} behind the products")
        assert isinstance(loop, For)
        (carry,) = (c for c in loop.carries if isinstance(c.var, Frag))
        total = carry.result
        assert isinstance(total, Frag)
        adding, whole = self.added(total)
        first = If(self.share.eq(0), rename(behind, {}, {total.name: whole}))
        return (*body[:main], replace(loop, body=self.step(loop.body)), *adding, first)

    def _is_main(self, stmt: Stmt) -> bool:
        return isinstance(stmt, For) and any(isinstance(s, MmaTile) for s in stmt.body)

    def step(self, body: Body) -> Body:
        """A slice, of which this warpgroup has a part."""
        (product,) = (s for s in body if isinstance(s, MmaTile))
        if product.k % self.groups:
            raise _unlike(f"slices of {product.k} of K for {self.groups} warpgroups")
        k = product.k // self.groups
        start = self.share * k
        chain = chain_of(body, product.a) if isinstance(product.a, Frag) else None
        if isinstance(product.a, Frag) and chain is None:
            raise _unlike(f"{product.a.name}, which is not made of the slice alone")
        made: dict[int, Stmt] = {}
        a = product.a
        if chain is not None:
            parts = chain.part(self.names, start, k)
            made = {id(old): new for old, new in zip(chain.stmts, parts, strict=True)}
            out = getattr(parts[-1], "out", None)
            assert isinstance(out, Frag)
            a = out
        elif isinstance(a, SmemRef):
            a = a.along(0, start, product.trans_a)
        loads = {x: self.numbers(body, getattr(product, x)) for x in ("by_row", "by_col", "zeros")}
        kept = {s.out for found in loads.values() for s in found}
        gone = {f.name for x in loads for f in getattr(product, x) if f not in kept}
        made |= {id(s): new for found in loads.values() for new in found for s in body
                 if isinstance(s, FragLoadGlobal) and s.out == new.out}  # fmt: skip
        by_row, by_col, zeros = (tuple(s.out for s in found) for found in loads.values())
        b = product.b.along(0, start, product.trans_b)
        mine = replace(product, a=a, b=b, k=k, by_row=by_row, by_col=by_col, zeros=zeros)
        left = (s for s in body if not (isinstance(s, FragLoadGlobal) and s.out.name in gone))
        return tuple(mine if s is product else made.get(id(s), s) for s in left)

    def numbers(self, body: Body, scales: tuple[Frag, ...]) -> list[FragLoadGlobal]:
        """The loads of what this warpgroup's part counts times, in place of the first of those of
        the slice; of a slice that is a part of one block they are all.
        """
        names = [f.name for f in scales]
        loads = [s for s in body if isinstance(s, FragLoadGlobal) and s.out.name in names]
        if len(loads) != len(scales):
            raise _unlike(f"{len(loads)} of {len(scales)} scales loaded with the slice")
        if len(loads) < 2:
            return loads
        if len(loads) % self.groups and self.groups % len(loads):
            raise _unlike(f"{len(scales)} scales of a slice for {self.groups} warpgroups")
        first, second = (s.src.coords for s in loads[:2])
        (along,) = (d for d, (x, y) in enumerate(zip(first, second, strict=True)) if x != y)
        each, of = max(len(loads) // self.groups, 1), max(self.groups // len(loads), 1)
        step = self.share * each // of
        return [_further(s, along, step) for s in loads[:each]]

    def added(self, total: Frag) -> tuple[Body, Frag]:
        """What follows the main loop, and what is the sum of all in the first warpgroup."""
        meet = BarSync(NamedBarrierRef(self.barrier.name, ZERO))
        out: list[Stmt] = [
            If(self.share > ZERO, (StShared(self._at(self.share - 1), total),)), meet
        ]  # fmt: skip
        whole = total
        for i in range(self.groups - 1):
            part, after = (replace(total, name=self.names.new(n)) for n in ("part", "whole"))
            out += LdShared(part, self._at(ZERO + i)), FragPointwise(after, "add", (whole, part))
            whole = after
        return (*out, meet), whole

    def _at(self, stage: Expr) -> SmemRef:
        return SmemRef(self.sums.name, stage, (ZERO, ZERO))


def _further(load: FragLoadGlobal, along: int, step: Expr) -> FragLoadGlobal:
    coords = tuple(x + step if d == along else x for d, x in enumerate(load.src.coords))
    return replace(load, src=replace(load.src, coords=coords))
