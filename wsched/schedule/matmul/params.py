"""Parameters of the matmul scheduler, under nvFuser's field names.

Source of the names: ``nvfuser::MatmulParams`` (csrc/scheduler/matmul_heuristic.h) and
``MatMulTileOptions``, ``GemmTile``, ``MmaMacro`` (csrc/mma_type.h). The last seventeen fields of
:class:`MatmulParams` are wsched's own.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from lowering.ground.frozen import quick
from wsched.schedule.checked import Checked, Choice, build, lines, plain
from wsched.schedule.matmul.copied import (
    CachePolicies,
    L2Promotions,
    SmemSwizzles,
    SupportedVectorization,
    ThreadLoads,
)
from wsched.schedule.matmul.macro import MmaArch, MmaMacro
from wsched.schedule.options import CachePolicy, MmaInputSmemSwizzle, TensorMapL2Promotion

__all__ = [
    "Accumulators",
    "BufferingLoopLevel",
    "CachePolicies",
    "CachePolicy",
    "CircularBufferOptions",
    "CircularBufferingStrategy",
    "ClusterDims",
    "GemmTile",
    "GroupShare",
    "L2Promotions",
    "MatMulTileOptions",
    "MatmulParams",
    "MmaArch",
    "MmaInputSmemSwizzle",
    "MmaMacro",
    "SmemSwizzles",
    "SplitKMode",
    "SupportedVectorization",
    "TensorMapL2Promotion",
    "ThreadLoads",
    "TileRasterizationOrder",
    "TilingStrategy",
]


class TilingStrategy(Choice):
    """How output tiles go to CTAs.

    ``DistributeStagesAcrossSMs`` is stream-K: the load steps of all tiles are dealt out evenly, so
    that a CTA may begin and end within a tile. nvFuser has the name, but no lowering.
    ``DistributeTilesDynamically`` is wsched's own: a persistent grid whose CTAs take the next tile
    when they need one, for kernels that share the device with others.
    """

    OneTilePerCTA = 0
    DistributeTilesAcrossSMs = 1
    DistributeStagesAcrossSMs = 2
    DistributeTilesDynamically = 3


class BufferingLoopLevel(Choice):
    """Whose tile a load step belongs to.

    ``CTATiles``: all compute warpgroups consume each step (cooperative). ``WarpTiles``: each
    warpgroup computes warp tiles of its own and they take turns (ping-pong).
    """

    CTATiles = 0
    WarpTiles = 1


class CircularBufferingStrategy(Choice):
    """Who issues the loads."""

    Pipelined = 0
    WarpSpecialized = 1


class Accumulators(Choice):
    """What products are summed in.

    ``Widest``: fp32, of integers int32. ``Half``: fp16, of operands of fp16 or, without promotion,
    of 8-bit floats: half the registers, every instruction's sums rounded. Only who calls can say
    that its numbers may be that coarse, as torch's ``allow_fp16_accumulation`` does.
    """

    Widest = 0
    Half = 1


class SplitKMode(Choice):
    """Who adds up the parts of K.

    ``Serial``: the CTA of a tile's last part waits for the others and adds what they have stored.
    ``Parallel``: every part is a result of the kernel, and one behind it adds them all; nobody
    waits. The words are CUTLASS's.
    """

    Serial = 0
    Parallel = 1


class TileRasterizationOrder(Choice):
    """Which of the tile grid's dimensions runs fastest: N for row-major, M for column-major."""

    RowMajor = 0
    ColumnMajor = 1


@dataclass(frozen=True, slots=True)
class GemmTile(Checked):
    """A tile of the problem, in elements."""

    m: int
    n: int
    k: int

    def __str__(self) -> str:
        return f"{self.m}x{self.n}x{self.k}"


@dataclass(frozen=True, slots=True)
class MatMulTileOptions(Checked):
    """Tile of a CTA and of a warpgroup; their quotient is the number of compute warpgroups."""

    cta_tile: GemmTile = GemmTile(128, 256, 64)
    warp_tile: GemmTile = GemmTile(64, 256, 64)


@dataclass(frozen=True, slots=True)
class CircularBufferOptions(Checked):
    """Circular buffering of the operands in shared memory.

    ``smem_circular_buffer_stage - smem_circular_buffer_prefetch_gap`` is the prefetch distance;
    ``gap - 1`` wgmma groups stay in flight before a stage is released.
    """

    circular_buffer_smem_write: bool = True
    circular_buffer_smem_read: bool = False
    smem_circular_buffer_stage: int = 4
    smem_circular_buffer_prefetch_gap: int = 2


@dataclass(frozen=True, slots=True)
class ClusterDims(Checked):
    """CTAs of a cluster along M and N."""

    m: int = 1
    n: int = 1


@dataclass(frozen=True, slots=True)
class GroupShare(Checked):
    """Which part of each group a kernel takes, of those that several share out; the fields are
    those of :class:`~wsched.fusion.Sharing`.
    """

    lengths: tuple[int, ...] = ()
    own: int = 0

    def __bool__(self) -> bool:
        return bool(self.lengths)


@quick
@dataclass(frozen=True, slots=True)
class MatmulParams(Checked):
    """What the matmul scheduler needs to know; the default is a cooperative persistent kernel.

    Args:
        tiling_strategy: one tile per CTA, or a persistent grid, its tiles dealt out in turn or at
            run time.
        buffering_loop_level: cooperative or ping-pong.
        circular_buffering_strategy: warp-specialized or pipelined loads.
        cta_order: order of the tile grid.
        circular_buffer_options: stages and prefetch.
        tile_sizes: tiles of a CTA and of a warpgroup; warp tiles lie below each other along M and
            side by side along N, as many as make up the CTA's; where the warp tile's k is a part of
            the CTA tile's, so many warpgroups share each slice of K, and add up what they have.
        mma_macro: the matrix instruction; its architecture is the target's.
        grid_traversal_factor: (G, 1): G indices of the slower dimension (rows, or columns with
            ``ColumnMajor``) are visited as a group, the last group may be narrower.
        use_smem_epilogue: store through shared memory by TMA, else from registers.
        supported_vec_size: elements that a thread accesses at once in global memory.
        promote_prologue_smem_reuse: let the epilogue reuse the operands' shared memory.
        use_ldst_matrix: stmatrix for 16-bit results.
        splitk_factor: parts that K is split into over CTAs, whose partial results are added up.
        cluster_dims: CTAs that share operands by multicast; with a macro of two CTAs those that
            differ in M alone are its pairs, and ``tile_sizes`` are those of each CTA.
        num_registers: wsched's own: registers per thread of (load, compute) warpgroups; None leaves
            all what they start with, ``"auto"`` is the first pair whose kernel compiles clean.
        wgmma_in_flight: wsched's own: wgmma groups in flight when a stage is released.
        epilogue_stages: wsched's own: shared-memory buffers of a warpgroup's store loop.
        epilogue_input_stages: wsched's own: stages of the circular buffer of each matrix that the
            epilogue reads, filled by the load warpgroup; with 0 the compute warpgroups read it
            from global memory themselves, as they always do without a load warpgroup.
        programmatic_dependent_launch: wsched's own: start before the grid in front of this one in
            the stream has ended, and wait for it only before the first access to global memory.
        cache_policies: wsched's own: what the L2 keeps longest; of one tensor that is both
            operands, ``a`` counts.
        l2_promotions: wsched's own: what the L2 fetches at once; of one tensor that is both
            operands, ``a`` counts.
        exchange_operands: wsched's own: compute the transposed product, B times A. Then A, B, M
            and N in all other fields are those of that product, so that tiles have rows of the
            result as their columns; the results are transposed as they are stored. Threads then
            access one element at a time, whatever ``supported_vec_size`` allows.
        batch_invariant: wsched's own: the bits of a row of the result do not depend on M: K is
            summed in the one order that all such schedules share.
        thread_loads: wsched's own: operands that threads load instead of TMA. The matrices that the
            epilogue reads are then read by the threads that compute.
        smem_swizzles: wsched's own (nvFuser takes the widest): spans in which operands that TMA
            loads lie in shared memory, without a swizzle too.
        accumulators: wsched's own (nvFuser's are fp32): what products are summed in.
        epilogue_columns: wsched's own: columns of a warp tile that the epilogue computes and stores
            at a time; 0 for the most of 64, or of 128 bytes, that divide it as a power of two does.
        prefetched_steps: wsched's own: of its first tile, for which a CTA asks the L2 for the
            operands before it waits for the grid in front.
        splitk_mode: wsched's own (nvFuser's CTAs add up, in any order): who adds up parts of K.
        siblings: wsched's own: further kernels that share the groups of a grouped matmul out with
            this one by the lengths of their tiles, launched as one grid with it where they may be.
        sharing: wsched's own: which part of each group a kernel takes that is one of several.
        delayed_groups: wsched's own: groups of a grouped matmul that have less than this come
            behind all others; 0 leaves all in their order.
        deferred_stores: wsched's own: results stay in registers behind a tile's main loop, and are
            stored during that of the next one, which one of ``epilogue_stages`` is enough for; of
            tiles that warpgroups share.

    Raises:
        ScheduleError: a field of another type than its own. Whether the values make a legal
            schedule is decided when there is one.
    """

    tiling_strategy: TilingStrategy = TilingStrategy.DistributeTilesAcrossSMs
    buffering_loop_level: BufferingLoopLevel = BufferingLoopLevel.CTATiles
    circular_buffering_strategy: CircularBufferingStrategy = (
        CircularBufferingStrategy.WarpSpecialized
    )
    cta_order: TileRasterizationOrder = TileRasterizationOrder.RowMajor
    circular_buffer_options: CircularBufferOptions = field(default_factory=CircularBufferOptions)
    tile_sizes: MatMulTileOptions = field(default_factory=MatMulTileOptions)
    mma_macro: MmaMacro = field(default_factory=MmaMacro)
    grid_traversal_factor: tuple[int, int] = (1, 1)
    use_smem_epilogue: bool = True
    supported_vec_size: SupportedVectorization = field(default_factory=SupportedVectorization)
    promote_prologue_smem_reuse: bool = False
    use_ldst_matrix: bool = True
    splitk_factor: int = 1
    cluster_dims: ClusterDims = field(default_factory=ClusterDims)
    num_registers: tuple[int, int] | Literal["auto"] | None = "auto"
    wgmma_in_flight: int = 1
    epilogue_stages: int = 2
    epilogue_input_stages: int = 2
    programmatic_dependent_launch: bool = True
    cache_policies: CachePolicies = field(default_factory=CachePolicies)
    l2_promotions: L2Promotions = field(default_factory=L2Promotions)
    exchange_operands: bool = False
    batch_invariant: bool = False
    thread_loads: ThreadLoads = field(default_factory=ThreadLoads)
    smem_swizzles: SmemSwizzles = field(default_factory=SmemSwizzles)
    accumulators: Accumulators = Accumulators.Widest
    epilogue_columns: int = 0
    prefetched_steps: int = 0
    splitk_mode: SplitKMode = SplitKMode.Serial
    siblings: tuple[MatmulParams, ...] = ()
    sharing: GroupShare = field(default_factory=GroupShare)
    delayed_groups: int = 0
    deferred_stores: bool = False

    @property
    def load_warpgroups(self) -> int:
        """Number of warpgroups that load; none where those that compute do."""
        if not self.warp_specialized:
            return 0
        return self.thread_loads.warpgroups if self.thread_loads else 1

    @property
    def persistent(self) -> bool:
        """Whether CTAs loop over output tiles."""
        return self.tiling_strategy is not TilingStrategy.OneTilePerCTA

    @property
    def stream_k(self) -> bool:
        """Whether load steps are dealt out to CTAs, not whole tiles."""
        return self.tiling_strategy is TilingStrategy.DistributeStagesAcrossSMs

    @property
    def combines(self) -> bool:
        """Whether several CTAs compute parts of a tile, which one of them adds up."""
        return self.stream_k or (self.splitk_factor > 1 and not self.stores_parts)

    @property
    def stores_parts(self) -> bool:
        """Whether results are parts of K, which a kernel behind this one adds up."""
        return self.splitk_factor > 1 and self.splitk_mode is SplitKMode.Parallel

    @property
    def dynamic(self) -> bool:
        """Whether tiles are dealt out at run time."""
        return self.tiling_strategy is TilingStrategy.DistributeTilesDynamically

    @property
    def ping_pong(self) -> bool:
        """Whether compute warpgroups have tiles of their own."""
        return self.buffering_loop_level is BufferingLoopLevel.WarpTiles

    @property
    def warp_specialized(self) -> bool:
        """Whether a warpgroup of its own loads."""
        return self.circular_buffering_strategy is CircularBufferingStrategy.WarpSpecialized

    @property
    def loads_in_place(self) -> bool:
        """Whether those that multiply load each slice of K where they need it, and wait: with one
        stage there is nothing to load ahead into.
        """
        stages = self.circular_buffer_options.smem_circular_buffer_stage
        return stages == 1 and not self.warp_specialized

    @property
    def loads_epilogue_inputs(self) -> bool:
        """Whether the load warpgroup loads the matrices that the epilogue reads; not where parts of
        a tile are added up, since only one of the CTAs, or warpgroups, computes the epilogue, not
        with warpgroups side by side, since a step of their ring is a chunk of columns for all, and
        not where the fragments are those of the transposed product or threads load operands.
        """
        loads = self.warp_specialized and self.epilogue_input_stages > 0 and not self.thread_loads
        alone = self.across == 1 and self.along_k == 1
        return loads and not self.combines and alone and not self.exchange_operands

    @property
    def halves(self) -> bool:
        """Whether sums are of 16 bits."""
        return self.accumulators is Accumulators.Half

    @property
    def register_pair(self) -> tuple[int, int] | None:
        """Registers per thread of (load, compute) warpgroups, if they are given."""
        return self.num_registers if isinstance(self.num_registers, tuple) else None

    def matches(self, other: MatmulParams) -> bool:
        """Whether ``other`` is what these are, with any registers where these leave them open."""
        return self in (other, replace(other, num_registers="auto"))

    @property
    def output_tile(self) -> GemmTile:
        """The tile that one load step belongs to: the CTA's, in ping-pong a warpgroup's."""
        return self.tile_sizes.warp_tile if self.ping_pong else self.tile_sizes.cta_tile

    @property
    def grid_across(self) -> int:
        """Elements that a cluster's tiles take along the faster dimension of the tile grid."""
        if self.cta_order is TileRasterizationOrder.RowMajor:
            return self.output_tile.n * self.cluster_dims.n
        return self.output_tile.m * self.cluster_dims.m

    @property
    def warpgroups(self) -> int:
        """Number of compute warpgroups."""
        cta, warp = self.tile_sizes.cta_tile, self.tile_sizes.warp_tile
        return (cta.m // warp.m) * (cta.n // warp.n) * self.along_k

    @property
    def along_k(self) -> int:
        """Number of compute warpgroups that share each slice of K."""
        return max(self.tile_sizes.cta_tile.k // self.tile_sizes.warp_tile.k, 1)

    @property
    def across(self) -> int:
        """Number of compute warpgroups that share a tile side by side along N."""
        return self.output_tile.n // self.tile_sizes.warp_tile.n

    def to_dict(self) -> dict[str, Any]:
        """Nested plain data: enums by name, tiles as dicts."""
        data: dict[str, Any] = plain(self)
        return data

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> MatmulParams:
        """The inverse of :meth:`to_dict`; fields that are left out keep their default.

        Raises:
            ScheduleError: a field that does not exist, an enum name that does not, or a value of
                another type than the field's.
        """
        made: MatmulParams = build(cls(), data, "MatmulParams")
        return made

    def __str__(self) -> str:
        return "".join(f"{line}\n" for line in lines(self, ""))
