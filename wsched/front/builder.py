"""A matmul from a handful of options, as builders of matmul kernels for MLIR take them.

The options are those of ``matmulBuilder.py`` of the LLVM project (its integration tests of sm_90):
strategy, tile, stages, types, and how the tensor maps of the operands are made. Each becomes a
field of :class:`MatmulParams` or of the definition; what is illegal is refused with what is legal.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from lowering.ground.errors import ScheduleError
from lowering.target import ptx
from wsched.front.known import import_fusion
from wsched.front.written import definition, tensor_line
from wsched.fusion import DataType
from wsched.run.compiled import CompiledFusion, compile_fusion
from wsched.schedule.matmul.params import (
    CircularBufferingStrategy,
    CircularBufferOptions,
    GemmTile,
    L2Promotions,
    MatmulParams,
    MatMulTileOptions,
    MmaInputSmemSwizzle,
    MmaMacro,
    SmemSwizzles,
    TilingStrategy,
)
from wsched.schedule.options import DebugPrint, TensorMapL2Promotion

__all__ = ["MatmulBuilder", "TmaOptions"]

_RESULTS = {"f16": DataType.Half, "bf16": DataType.BFloat16}
_INPUTS = {**_RESULTS, "tf32": DataType.TF32}
_OUTPUTS = {**_RESULTS, "f32": DataType.Float}
_STRATEGIES = {
    "warpspecialized": CircularBufferingStrategy.WarpSpecialized,
    "multistage": CircularBufferingStrategy.Pipelined,
}
_SPANS = (ptx.WIDEST_SWIZZLE, 64, 32, 0)
_PROMOTIONS = tuple(p.value for p in TensorMapL2Promotion)

_BLOCK = 64
"""Rows of one wgmma; two warpgroups share a tile that has twice as many."""


@dataclass(frozen=True, slots=True)
class TmaOptions:
    """How the tensor maps of the operands are made (PTX ISA, tensor map).

    Args:
        swizzle: bytes of the swizzle's span, 0 for none: core matrices of 16 bytes. A box is as
            wide as the span, so rows of a stage have whole spans; the widest that fits needs the
            fewest boxes.
        l2_promotion: bytes that the L2 fetches at once: 0, 64, 128 or 256.
        oob: what is loaded from outside of a tensor. A product takes rows and columns that are not
            there as zeros, so ``"nan"`` is refused.
        interleave: ``"none"``: the interleaved layouts are of images, whose channels lie in groups
            of 16 or 32 bytes.
    """

    swizzle: int = ptx.WIDEST_SWIZZLE
    l2_promotion: int = 256
    oob: Literal["zero", "nan"] = "zero"
    interleave: Literal["none", "16b", "32b"] = "none"


@dataclass(frozen=True, slots=True)
class MatmulBuilder:
    """``D = A · B`` of any M, N and K that TMA can address.

    Args:
        strategy: ``"warpspecialized"``, a warpgroup loads and others multiply, or ``"multistage"``,
            those that multiply load ahead of themselves.
        input_type: of A and B: ``f16``, ``bf16`` or ``tf32``, fp32 in memory.
        output_type: of D: ``f32``, ``f16`` or ``bf16``.
        block_m: rows of a tile of D, a multiple of 64.
        block_n: columns of it, N of the wgmma.
        block_k: K of a stage.
        num_stages: tiles of A and B in shared memory.
        b_layout: ``"nk"``, B is [N, K] and K is contiguous, or ``"kn"``, [K, N] with N contiguous.
        persistent: a grid of as many CTAs as fit, which take tiles in turn, else one for each tile.
        tma: how the operands' tensor maps are made.
        smem_epilogue: results go by way of shared memory and TMA, else straight from registers.
        prints: lines that the kernel prints, as of ``Schedule.debug_print``: the index of a loop, a
            size or an element, each as its type is, where predicates hold.

    Raises:
        ScheduleError: an option that is no such thing, or that makes an illegal schedule.
    """

    strategy: str = "warpspecialized"
    input_type: str = "f16"
    output_type: str = "f32"
    block_m: int = 128
    block_n: int = 128
    block_k: int = 64
    num_stages: int = 4
    b_layout: str = "nk"
    persistent: bool = True
    tma: TmaOptions = TmaOptions()
    smem_epilogue: bool = True
    prints: tuple[DebugPrint, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what no schedule could mean; whether one is legal is decided when it is made."""
        self._one_of("strategy", _STRATEGIES)
        self._one_of("input_type", _INPUTS)
        self._one_of("output_type", _OUTPUTS)
        self._one_of("b_layout", ("nk", "kn"))
        for option in ("block_m", "block_n", "block_k", "num_stages"):
            self._require(option, int, "an int")
        for option in ("persistent", "smem_epilogue"):
            self._require(option, bool, "a bool")
        self._require("tma", TmaOptions, "a TmaOptions")
        self._require("prints", tuple, "a tuple of DebugPrint")
        if not all(isinstance(line, DebugPrint) for line in self.prints):
            raise self._refusal("prints", "prints takes a tuple of DebugPrint")
        tma = self.tma
        _only("swizzle", tma.swizzle, _SPANS, "no span that a swizzle has")
        self._whole_spans("block_k")
        if self.b_layout == "kn":
            self._whole_spans("block_n")
        rows = self._rows
        fits = tuple(s for s in _SPANS if all(row % (s or ptx.NO_SWIZZLE) == 0 for row in rows))
        why = f"rows of a stage have {' and '.join(map(str, dict.fromkeys(rows)))} bytes"
        _only("swizzle", tma.swizzle, fits, why)
        _only("l2_promotion", tma.l2_promotion, _PROMOTIONS, "no size that the L2 fetches at once")
        _only("oob", tma.oob, ("zero",), "what lies outside of a tensor counts as zero in a sum")
        _only("interleave", tma.interleave, ("none",), "the tensors are matrices, not images")

    def _one_of(self, option: str, legal: Iterable[str]) -> None:
        value = getattr(self, option)
        if not isinstance(value, str) or value not in legal:
            raise self._refusal(option, f"no such {option.replace('_', ' ')}", *map(repr, legal))

    def _require(self, option: str, kind: type, words: str) -> None:
        if type(getattr(self, option)) is not kind:
            raise self._refusal(option, f"{option} takes {words}")

    def _whole_spans(self, option: str) -> None:
        """Refuse a side of a tile along which rows of an operand lie that are no swizzle's."""
        element, span = _INPUTS[self.input_type].element.bytes, ptx.NARROWEST_SWIZZLE
        row = getattr(self, option) * element
        if row % span:
            why = f"rows of a stage have {row} bytes, no multiple of {span}, the shortest span"
            raise self._refusal(option, why, f"multiples of {span // element}")

    def _refusal(self, option: str, why: str, *legal: str) -> ScheduleError:
        """The error of an option; the caller raises it."""
        return ScheduleError("builder", f"{option}={getattr(self, option)!r}", why, legal)

    @property
    def _rows(self) -> tuple[int, int]:
        """Bytes of a row of a stage of A and of B."""
        element = _INPUTS[self.input_type].element.bytes
        k = self.block_k * element
        n = ptx.stored_columns(self.block_n, element, self.tma.swizzle or ptx.NO_SWIZZLE) * element
        return k, n if self.b_layout == "kn" else k

    @property
    def _swizzles(self) -> SmemSwizzles:
        """Those that are not the widest anyhow."""
        asked = MmaInputSmemSwizzle(self.tma.swizzle or ptx.NO_SWIZZLE)
        widest = (next(s for s in _SPANS if row % s == 0) for row in self._rows)
        free = MmaInputSmemSwizzle.Widest
        return SmemSwizzles(*(free if self.tma.swizzle == s else asked for s in widest))

    @property
    def kernel_name(self) -> str:
        """What the kernel is called: strategy, types, tile and stages, then what is not usual."""
        words = [
            self.strategy, self.input_type, self.output_type,
            f"{self.block_m}x{self.block_n}x{self.block_k}", str(self.num_stages),
        ]  # fmt: skip
        words += ["kn"] * (self.b_layout == "kn") + ["tile_per_cta"] * (not self.persistent)
        words += ["registers"] * (not self.smem_epilogue)
        words += [f"swizzle_{self.tma.swizzle}"] * bool(self._swizzles)
        words += [f"l2_{self.tma.l2_promotion}"] * (self.tma.l2_promotion != 256)
        words += ["prints"] * bool(self.prints)
        return "_".join(words)

    @property
    def definition(self) -> str:
        """The definition of the product, as nvFuser prints one."""
        dtype, result = _INPUTS[self.input_type], _OUTPUTS[self.output_type]
        by_columns = ", stride_order=[0, 1]" * (self.b_layout == "nk")
        return definition(
            tensor_line("a", (-1, -1), dtype),
            tensor_line("b", (-1, -1), dtype, by_columns),
            f"c = fd.ops.matmul(a, b, dtype={DataType.Float!r})",
            f"d = fd.ops.cast(c, dtype={result!r})",
        )

    @property
    def params(self) -> MatmulParams:
        """The parameters of the schedule."""
        groups = 2 if self.block_m % (2 * _BLOCK) == 0 else 1
        promotion = TensorMapL2Promotion(self.tma.l2_promotion)
        tiling = TilingStrategy
        specialized = self.strategy == "warpspecialized"
        # A stage is multiplied, one is loaded ahead by those that multiply; what is left may fly.
        flying = min(max(self.num_stages - (1 if specialized else 2), 0), 1)
        return MatmulParams(
            tiling_strategy=(
                tiling.DistributeTilesAcrossSMs if self.persistent else tiling.OneTilePerCTA
            ),
            circular_buffering_strategy=_STRATEGIES[self.strategy],
            circular_buffer_options=CircularBufferOptions(
                smem_circular_buffer_stage=self.num_stages,
                smem_circular_buffer_prefetch_gap=flying + 1,
            ),
            tile_sizes=MatMulTileOptions(
                GemmTile(self.block_m, self.block_n, self.block_k),
                GemmTile(self.block_m // groups, self.block_n, self.block_k),
            ),
            mma_macro=MmaMacro(_BLOCK, self.block_n, 16),
            wgmma_in_flight=flying,
            epilogue_stages=1,
            use_smem_epilogue=self.smem_epilogue,
            num_registers="auto" if specialized else None,
            l2_promotions=L2Promotions(promotion, promotion),
            smem_swizzles=self._swizzles,
        )

    def build(self) -> CompiledFusion:
        """The kernel, to call, to look at (``dump("mlir")``), to launch through MLIR.

        Raises:
            ScheduleError: the options make an illegal schedule, or print what is not there; it says
                what is legal.
            UnsupportedError: there is no kernel for them.
        """
        return compile_fusion(
            import_fusion(self.definition), self.params, name=self.kernel_name, prints=self.prints
        )


def _only(option: str, value: object, legal: tuple[object, ...], why: str) -> None:
    if type(value) not in map(type, legal) or value not in legal:
        raise ScheduleError("builder", f"tma.{option}={value!r}", why, tuple(map(repr, legal)))
