"""What the heuristics plan for: extents, types and what the epilogue asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from math import gcd, prod
from typing import Any

from lowering.ground.frozen import fields_of, quick, replaced
from lowering.target.ptx import TMA_STRIDE_ALIGN
from lowering.target.target import Target
from lowering.target.targets import DEFAULT
from wsched.choose.epilogue_work import epilogue_matrices, epilogue_work
from wsched.choose.gpus import H200, H200_L2_BYTES, Gpu
from wsched.fusion import (
    DataType,
    Fusion,
    IterDomain,
    Product,
    Role,
    operands_of,
    the_products,
)
from wsched.schedule.matmul.chunks import chunk_columns, pieces
from wsched.schedule.matmul.computed import Computed, element_bytes
from wsched.schedule.matmul.demands import Demands
from wsched.schedule.matmul.params import MatmulParams
from wsched.schedule.matmul.reductions import Reductions
from wsched.schedule.matmul.scaled import blocks_scaled, numbers_of_blocks

__all__ = [
    "ALIGNED", "Problem", "demands", "dense_widths", "row_alignment",
]  # fmt: skip

ALIGNED = 128
"""Bytes of a line of the L2: rows that begin at multiples of it are as fast as any."""

Sizes = tuple[int, int, int, int]


class _Kept:
    """What is found of a problem when it is first asked for, and kept with it: a choice asks for
    each of it thousands of times.
    """


@quick
@dataclass(frozen=True, slots=True)
class Problem(_Kept):
    """``D[m, n] = A[m, k] · B[n, k]ᵀ`` on a device, or several of one A or one B.

    Args:
        m: rows of the result.
        n: its columns.
        k: columns of both operands.
        operand: type of the operands as they are multiplied.
        results: types of all results that are matrices.
        sms: multiprocessors of the device.
        inputs: types of the matrices that TMA loads for the epilogue, None where threads read them.
        work: the epilogue's :func:`epilogue_work`.
        pairs: whether threads can read two columns at once of what they read for it, and write two
            of the result.
        smem_epilogue: whether results may go through shared memory.
        l2_bytes: size of the device's L2.
        matrices: types of all matrices that the epilogue reads, whoever loads them.
        m_major: whether A is M-major in memory.
        n_major: whether B is N-major in memory.
        gpu: name of the device.
        batch_invariant: whether the bits of a row must not depend on ``m``.
        batch: number of such products.
        a_count: number of As.
        b_count: number of Bs; of both, one is 1 and the other the number of accumulators.
        align_a: bytes, at most :data:`ALIGNED`, that all rows of A as it lies in memory begin at
            multiples of; of several As the least.
        align_b: the same of B.
        target: what kernels for the device are made for.
        over_rows: number of results that are reductions over rows.
        over_columns: number of those over columns, or over both; ``over_both`` of these are.
        of_sums: of them, as :class:`Reductions` has it.
        m_entries: rows of each of several As that stand side by side, whose sum is ``m``; empty of
            one.
        n_entries: columns of each of several Bs, likewise.
        k_entries: parts of K, likewise.
        thread_a: bytes that a thread can copy at once of A as it lies in memory, where TMA cannot
            read it; 0 where it can, or where columns lie apart.
        thread_b: the same of B.
        promotion: of the product (:class:`wsched.fusion.MmaOp`).
        computed: what is computed on an operand.
        scaled: rows of A and columns of B that a scale inside the sum is for; None without any.
        grouped: which of ``m``, ``n`` and ``k`` groups share out of whose sizes only the device
            knows; then that is the mean, and ``batch`` is the number of groups. Empty without any.
        added: whether rows of results are added to others, which threads do.
    """

    m: int
    n: int
    k: int
    operand: DataType
    results: tuple[DataType, ...]
    sms: int
    inputs: tuple[DataType, ...] | None = ()
    work: int = 0
    pairs: bool = True
    smem_epilogue: bool = True
    l2_bytes: int = H200_L2_BYTES
    matrices: tuple[DataType, ...] = ()
    m_major: bool = False
    n_major: bool = False
    gpu: str = H200
    batch_invariant: bool = False
    batch: int = 1
    a_count: int = 1
    b_count: int = 1
    align_a: int = ALIGNED
    align_b: int = ALIGNED
    target: Target = DEFAULT
    over_rows: int = 0
    over_columns: int = 0
    over_both: int = 0
    of_sums: bool = False
    m_entries: tuple[int, ...] = ()
    n_entries: tuple[int, ...] = ()
    k_entries: tuple[int, ...] = ()
    thread_a: int = 0
    thread_b: int = 0
    promotion: int = 0
    computed: Computed | None = None
    scaled: tuple[int, int] | None = None
    grouped: str = ""
    added: bool = False

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(fields_of(self))

    def on(self, gpu: Gpu) -> Problem:
        """The same on another GPU."""
        return replaced(self, sms=gpu.sms, l2_bytes=gpu.l2_bytes, gpu=gpu.name, target=gpu.target)

    @classmethod
    def of(
        cls,
        fusion: Fusion,
        extents: Mapping[str, int],
        sms: int,
        inputs: tuple[DataType, ...] | None,
        pairs: bool = True,
        l2_bytes: int = H200_L2_BYTES,
        gpu: str = H200,
        batch_invariant: bool = False,
        aligned: Mapping[str, int] | None = None,
        target: Target = DEFAULT,
    ) -> Problem:
        """The problem of a fusion, for extents by their names.

        Args:
            fusion: with one matrix product, or several that share an operand.
            extents: by name.
            sms: see the class, as the other arguments.
            inputs: see the class.
            pairs: see the class.
            l2_bytes: see the class.
            gpu: see the class.
            batch_invariant: see the class.
            aligned: :func:`row_alignment` of operands by name; what it lacks lies densely.
            target: see the class.

        Raises:
            UnsupportedError: it has no matrix product, or several that share neither operand.
        """
        product, (left, right) = (made := the_products(fusion))[0], operands_of(made)
        sizes = _sizes(product, extents, grouped := _grouped(fusion, product))
        by_columns = grouped == "n"  # which begin anywhere: threads store them one by one
        columns = _entries(fusion, (product.cols,), extents)
        each = 8 if fusion.added else 2  # columns that threads access at once
        return cls(
            **dict(zip("mnk", sizes, strict=False)) | _aligned(made, sizes, aligned or {}),
            operand=product.operand,
            results=tuple(b.dtype for b in fusion.matrices),
            sms=sms,
            inputs=None if by_columns else inputs,
            work=epilogue_work(fusion),
            pairs=pairs and not by_columns and not any(n % each for n in (sizes[1], *columns)),
            smem_epilogue=not (by_columns or fusion.added), l2_bytes=l2_bytes,
            matrices=tuple(fusion.tensor(b.tensor).dtype for b in epilogue_matrices(fusion)),
            m_major=product.m_major, n_major=product.n_major,
            gpu=gpu, target=target,
            batch_invariant=batch_invariant,
            a_count=len(left), b_count=len(right), batch=sizes[3],
            m_entries=_entries(fusion, (product.rows,), extents),
            n_entries=columns,
            k_entries=_entries(fusion, product.of(Role.K), extents),
            promotion=product.mma.promotion,
            computed=Computed.of(fusion, product),
            scaled=blocks_scaled(product),
            grouped=grouped,
            added=bool(fusion.added),
            **asdict(Reductions.of(fusion)),
        )  # fmt: skip

    def with_threads(self, fusion: Fusion, widths: Mapping[str, int]) -> Problem:
        """The same with ``thread_a`` and ``thread_b``, by the names of operands; 0 of others."""
        made = the_products(fusion)
        a, b = (min(widths.get(t.name, 0) for t in side) for side in
                ([p.a for p in made], [p.b for p in made]))  # fmt: skip
        return replaced(self, thread_a=a, thread_b=b)

    def extents(self, fusion: Fusion) -> dict[str, int]:
        """The extents of a fusion that this is the problem of, by their names; where batches have
        two dimensions, all are of the outer one.
        """
        product = the_products(fusion)[0]
        m, n, k = (getattr(self, x) * (self.batch if x == self.grouped else 1) for x in "mnk")
        sizes = {product.rows: m, product.cols: n, **dict.fromkeys(product.of(Role.K), k)}
        sizes |= dict(zip(product.outer, (self.batch, *(1 for _ in product.outer)), strict=False))
        found = {str(d.extent): sizes[d] for d in product.dims}
        for names in fusion.lists.values():
            found |= zip(names, self.m_entries or self.n_entries or self.k_entries, strict=True)
        return found | numbers_of_blocks(fusion, found)

    @property
    def apart(self) -> tuple[Problem, ...]:
        """The problems of what stands side by side, each alone; none where nothing does."""
        bare = replaced(self, m_entries=(), n_entries=(), k_entries=())
        return (
            *(replaced(bare, m=m) for m in self.m_entries),
            *(replaced(bare, n=n) for n in self.n_entries),
            *(replaced(bare, k=k) for k in self.k_entries),
        )

    @property
    def bare(self) -> Problem:
        """The product alone: of several one, without an epilogue, of operands that are there."""
        return replaced(
            self, results=(self.operand,), inputs=(), work=0, pairs=True, smem_epilogue=True,
            matrices=(), batch_invariant=False, a_count=1, b_count=1, over_rows=0, over_columns=0,
            over_both=0, of_sums=False, computed=None, scaled=None, added=False,
        )  # fmt: skip

    def tiles_m(self, m: int, piece: int = 1) -> int:
        """Tiles of ``m`` rows, of pieces none of which has rows of two As."""
        return -(-sum(-(-rows // piece) * piece for rows in self.m_entries or (self.m,)) // m)

    def tiles_n(self, n: int, piece: int = 1) -> int:
        """Tiles of ``n`` columns, likewise."""
        return -(-sum(-(-cols // piece) * piece for cols in self.n_entries or (self.n,)) // n)

    def tiles(self, params: MatmulParams) -> tuple[int, int]:
        """Rows and columns of tiles of a schedule; of the transposed product, where it computes
        that.
        """
        found = self.exchanged if params.exchange_operands else self
        if not (found.m_entries or found.n_entries):  # pieces divide tiles
            return found.tiles_m(params.output_tile.m), found.tiles_n(params.output_tile.n)
        loaded = (found.inputs or ()) if params.loads_epilogue_inputs else ()
        columns = chunk_columns(params, *found.results, *loaded, *found.reductions.types)
        m, n = pieces(params, columns, found.m_major, found.n_major)
        tile = params.output_tile
        return found.tiles_m(tile.m, m), found.tiles_n(tile.n, n)

    def steps(self, k: int) -> int:
        """Steps of ``k`` along K, none of which has a part of two pairs of operands."""
        return sum(-(-part // k) for part in self.k_entries or (self.k,))

    @cached_property
    def operand_bytes(self) -> tuple[int, int]:
        """Bytes of all As and of all Bs."""
        (a, b), each = self.element_bytes, self.batch * self.k
        return int(self.a_count * self.m * a * each), int(self.b_count * self.n * b * each)

    @cached_property
    def element_bytes(self) -> tuple[float, float]:
        """Bytes of an element of A and of B in memory."""
        return element_bytes(self.operand, self.computed)

    @cached_property
    def products(self) -> int:
        """Accumulators of a tile."""
        return max(self.a_count, self.b_count)

    @cached_property
    def reductions(self) -> Reductions:
        """The results that are reductions."""
        return Reductions(self.over_rows, self.over_columns, self.over_both, self.of_sums)

    @cached_property
    def exchanged(self) -> Problem:
        """The transposed product, ``Dᵀ[n, m] = B[n, k] · A[m, k]ᵀ``."""
        return replaced(
            self, m=self.n, n=self.m, m_major=self.n_major, n_major=self.m_major,
            a_count=self.b_count, b_count=self.a_count, align_a=self.align_b, align_b=self.align_a,
            m_entries=self.n_entries, n_entries=self.m_entries,
            thread_a=self.thread_b, thread_b=self.thread_a,
            computed=self.computed and self.computed.exchanged,
            scaled=self.scaled and self.scaled[::-1], **asdict(self.reductions.exchanged),
            grouped={"m": "n", "n": "m"}.get(self.grouped, self.grouped),
        )  # fmt: skip

    @property
    def unaligned(self) -> DataType | None:
        """Type of the first result whose rows TMA cannot store: no multiples of 16 bytes."""
        rows = self.n_entries or (self.n,)
        odd = (r for r in self.results if any(n * r.bytes % TMA_STRIDE_ALIGN for n in rows))
        return next(odd, None)


def _aligned(made: tuple[Product, ...], sizes: Sizes, known: Mapping[str, int]) -> dict[str, Any]:
    """The least alignment of the rows of the As and of the Bs, for M, N, K and the batch."""
    left, right = (
        min(known.get(name, row_alignment(apart)) for name, apart in side.items())
        for side in _apart(made, sizes)
    )
    return {"align_a": left, "align_b": right}


def dense_widths(fusion: Fusion, extents: Mapping[str, int]) -> dict[str, int]:
    """Of dense operands that TMA cannot read, by name, the bytes that a thread can copy at once."""
    if fusion.lists:
        return {}
    made = the_products(fusion)
    left, right = _apart(made, _sizes(made[0], extents))
    odd = {name: n for name, n in (left | right).items() if n % TMA_STRIDE_ALIGN}
    return {name: gcd(n, TMA_STRIDE_ALIGN) for name, n in odd.items()}


def _apart(
    made: tuple[Product, ...], sizes: tuple[int, int, int, int]
) -> tuple[dict[str, int], dict[str, int]]:
    """Bytes from row to row of the As and of the Bs, by name, where they lie densely, for M, N, K
    and the batch; 0 of a single row, which is apart from nothing.
    """
    m, n, k, batch = sizes
    a = (k, m) if made[0].m_major else (m, k)
    b = (k, n) if made[0].n_major else (n, k)
    left, right = (
        {t.name: t.dtype.element.size(length) if batch * rows > 1 else 0 for t in side}
        for side, (rows, length) in (([p.a for p in made], a), ([p.b for p in made], b))
    )
    return left, right


def _sizes(product: Product, extents: Mapping[str, int], grouped: str = "") -> Sizes:
    """M, N, K and the batch; of what groups share out the mean."""
    size = {d: extents[str(d.extent)] for d in product.dims}
    k, batch = (prod(size[d] for d in dims) for dims in (product.of(Role.K), product.outer))
    found = {"m": size[product.rows], "n": size[product.cols], "k": k}
    if grouped:
        found[grouped] = -(-found[grouped] // max(batch, 1))
    return found["m"], found["n"], found["k"], batch


def _grouped(fusion: Fusion, product: Product) -> str:
    """Which of m, n and k groups share out."""
    if fusion.groups is None:
        return ""
    named = {str(product.rows.extent): "m", str(product.cols.extent): "n"}
    return named.get(fusion.groups.along, "k")


def _entries(
    fusion: Fusion, dims: tuple[IterDomain, ...], extents: Mapping[str, int]
) -> tuple[int, ...]:
    """Extents of what stands side by side along one of these dimensions."""
    lists = fusion.lists
    return tuple(extents[x] for d in dims if lists for x in lists.get(str(d.extent), ()))


def row_alignment(*apart: int) -> int:
    """Bytes, at most :data:`ALIGNED`, that all rows of an operand begin at a multiple of.

    Args:
        apart: bytes from row to row, from matrix to matrix, from an aligned address to the first.
            Where TMA does not read them, the operand is copied into aligned rows.
    """
    found = gcd(ALIGNED, *apart)
    return found if found >= TMA_STRIDE_ALIGN else ALIGNED


@lru_cache(maxsize=1024)
def demands(problem: Problem) -> Demands:
    """What the fusions that a problem stands for demand of a schedule."""
    p = problem
    return Demands(
        p.operand, p.results, p.inputs or (), p.m_major, p.n_major, p.work > 0,
        (p.a_count, p.b_count), p.target, p.reductions, p.promotion, p.computed, p.scaled,
        bool(p.grouped), bool(p.m_entries or p.n_entries or p.k_entries), p.added,
    )  # fmt: skip
