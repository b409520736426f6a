"""Kernels of the families beyond a matmul of two operands, each with what it is called on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

import wsched
from lowering.ground.dtypes import DType
from lowering.ground.expr import evaluate
from lowering.kernel.kernel import Kernel
from lowering.proof.admitted import Admitted
from tests.computed import cast, fusion, tile
from tests.grouped import ADDED, FORMS, GATE, given, grouped
from tests.importer.test_build import build
from tests.importer.test_several import GATED
from tests.lists import side_by_side
from tests.lowering.summary.summaries import rms
from tests.mutants.launches import Launch, called, integers, launched, launches_of
from tests.narrow_results import AMAX
from tests.narrow_results import definition as narrow_results
from tests.pairs import CLUSTERS, PAIRS
from tests.reductions import ALL
from tests.reductions import definition as reductions_of
from tests.run.test_eight_bits import narrow
from tests.run.test_reductions import fitted
from tests.run.test_sums import SUM
from tests.schedules import (
    cooperative,
    deferred,
    definition,
    dynamic,
    exchanged,
    in_tensor_memory,
    ping_pong,
    split_k,
)
from wsched.front.known import import_fusion
from wsched.front.scaled import int_mm_call, scaled_mm_call
from wsched.run.compiled import CompiledFusion, compile_fusion
from wsched.run.counts import admitted_by, admitted_of
from wsched.run.row_kernel import row_kernel
from wsched.run.summary import compiled_summary
from wsched.schedule.matmul.params import ClusterDims, MatmulParams, SupportedVectorization
from wsched.schedule.matmul.siblings import shared

__all__ = ["FAMILIES", "SIZES", "Made", "Sizes", "linear"]

Sizes = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True, eq=False)
class Made:
    """A kernel and small launches of it, as ``tests.mutants.subjects.Subject`` has them.

    Args:
        kernel: it.
        launches: of it.
        admitted: what the product tells the proof of its launches; None if it tells nothing, as of
            kernels that no schedule makes.
    """

    kernel: Kernel
    launches: tuple[Launch, ...]
    admitted: Admitted | None = None


SIZES: tuple[Sizes, ...] = ((60, 24, 64, 4), (192, 64, 192, 2), (72, 104, 320, 2))
"""M, N, K and multiprocessors: as ``tests.mutants.subjects.PROBLEMS``, for tiles of 64 x 32."""

_LARGE: tuple[Sizes, ...] = ((128, 24, 64, 4), (256, 64, 96, 2), (136, 104, 160, 2))
"""The same for tiles of 128 x 32: of 128 lanes of tensor memory."""

_PAIRED: tuple[Sizes, ...] = ((256, 24, 64, 4), (392, 72, 96, 2), (264, 136, 160, 2))
"""The same for pairs of CTAs that have 256 rows."""

_ONE = partial(cooperative, 64, 32, stages=3, groups=1, registers=None)
_NARROW = partial(cooperative, 64, 16, 32, stages=3, groups=1, registers=None)
_TURNS = partial(ping_pong, 64, 32, stages=3)
_ROWS = partial(cooperative, 64, k=32, stages=2, groups=1, registers=None)
_FROM_REGISTERS = replace(
    dynamic(_NARROW()), use_smem_epilogue=False, supported_vec_size=SupportedVectorization(1)
)
_LATER = deferred(cooperative(128, 32, 32, stages=3))
_CELLS = partial(in_tensor_memory, 128, 32, 32, stages=2, epilogue_stages=1)
_TF32 = wsched.with_tf32(definition("f32", "f32"))


def _on(made: CompiledFusion, *calls: tuple[Sequence[Any], int], own: int = 0) -> Made:
    one = made.launched[own]
    launches = tuple(called(made, inputs, sms, own) for inputs, sms in calls)
    return Made(one.kernel, launches, admitted_by(one.plan))


def linear(made: CompiledFusion, sizes: Sequence[Sizes]) -> Made:
    """A matmul of two operands; the third launch, of ragged edges, on several clusters."""
    kernel, launches = made.kernel, []
    for at, (m, n, k, sms) in enumerate(sizes):
        sms *= kernel.cluster if at == 2 else 1
        launches.append(launched(made.fusion, kernel, {"M": m, "N": n, "K": k}, sms))
    return Made(kernel, tuple(launches), admitted_by(made.plan))


def _linear(text: str, params: MatmulParams, sizes: Sequence[Sizes] = SIZES) -> Made:
    """One of a definition."""
    return linear(compile_fusion(import_fusion(text), params), sizes)


_ENDS = (((40,), 24, 32, 4), ((63, 63, 128, 129), 40, 96, 2), ((1, 3, 133), 16, 160, 2),
         ((9, 4, 30, 64), 16, 64, 2))  # fmt: skip
"""Ends of groups, N, K and multiprocessors: empty groups, a tile and a row, and ends that are none,
of which the kernel tells.
"""


def _grouped(text: str, params: MatmulParams, more: bool = False) -> Made:
    """Groups of rows; with ``more`` two matrices for each."""
    calls = []
    for ends, n, k, sms in _ENDS:
        x, w = integers(0, max(ends), k), integers(1, len(ends), n, k).mT
        second = (integers(2, len(ends), n, k).mT,) if more else ()
        calls.append(((x, w, torch.tensor(ends, dtype=torch.int32), *second), sms))
    return _on(wsched.compile(text, list(calls[0][0]), params=dynamic(params)), *calls)


def _added(params: MatmulParams) -> Made:
    """Rows of groups added to those that numbers say: some of them twice, some nowhere."""
    params = replace(dynamic(params), use_smem_epilogue=False)
    made, calls = compile_fusion(import_fusion(ADDED), params), []
    for ends, n, k, sms in _ENDS:
        m = max(ends)
        numbers = (torch.randperm(m, generator=torch.Generator().manual_seed(m)) - 1) % (m - 2)
        numbers[m // 2] = -1
        x, w = integers(0, m, k), integers(1, len(ends), n, k).mT
        onto = integers(2, m - 3, n)
        calls.append(((x, w, torch.tensor(ends, dtype=torch.int32), numbers, onto), sms))
    return _on(made, *calls)


_SHARED = (((60,), 24, 32, 4), ((70, 242, 242, 265), 72, 64, 2), ((1, 173), 16, 96, 2),
           ((9, 4, 180), 16, 64, 2))  # fmt: skip
"""The same for tiles of 40, 32 and 24 rows: 172 are two of the first and three of the second, 60
two of the second, and some are the third's.
"""


def _sharing(own: int, second: MatmulParams) -> Made:
    """One kernel of three that share groups of rows out; it writes what is its part."""
    kernels = (_ROWS(40), second, _ROWS(24))
    params, calls = shared(tuple(dynamic(exchanged(p)) for p in kernels)), []
    for ends, n, k, sms in _SHARED:
        x, w = integers(0, max(ends), k), integers(1, len(ends), n, k).mT
        calls.append(((x, w, torch.tensor(ends, dtype=torch.int32)), sms))
    made = wsched.compile(grouped(), list(calls[0][0]), params=params)
    return _on(made, *calls, own=own)


def _of_groups(form: str, params: MatmulParams) -> Made:
    """Groups of columns, or sums over groups: empty ones in front and behind, and ends that are
    none, of which the kernel tells.
    """
    ranks, calls = FORMS[form], []
    of = ((0, 24, 40), 40, 64, 4), ((72, 1, 63), 96, 96, 2), ((5, 70, 0), 200, 40, 2)
    for sizes, n, k, sms in of:
        calls.append((given(sizes, n, k, ranks=ranks), sms))
    x, w, _ = given((20, 20, 24), 40, 64, ranks=ranks)
    calls.append(((x, w, torch.tensor((9, 4, 64), dtype=torch.int32)), 2))
    return _on(wsched.compile(grouped(ranks=ranks), list(calls[0][0]), params=params), *calls)


def _reduced(params: MatmulParams) -> Made:
    """Five reductions beside a result."""
    made = wsched.compile(reductions_of(ALL), [integers(0, *s) for s in ((8, 8), (8, 8), (8,))],
                          params=fitted(params, ALL))  # fmt: skip
    return _on(made, *(([integers(0, m, k), integers(1, n, k), integers(2, n)], sms)
                       for m, n, k, sms in SIZES))  # fmt: skip


def _side_by_side(params: MatmulParams) -> Made:
    """Queries, keys and values of one input."""
    made = compile_fusion(import_fusion(side_by_side(3)), params)
    calls = []
    for m, n, k, sms in SIZES:
        weights = (integers(at, rows, k) for at, rows in enumerate((n, 8, n), 1))
        calls.append(([integers(0, m, k), *weights], sms))
    return _on(made, *calls)


def _gated(params: MatmulParams) -> Made:
    """Two products that meet in the epilogue."""
    return _on(compile_fusion(build(*GATED), params), *(
        ([integers(0, m, k), integers(1, n, k), integers(2, n, k)], sms) for m, n, k, sms in SIZES
    ))  # fmt: skip


def _summed(params: MatmulParams) -> Made:
    """Two products in one accumulator, the second of another K."""
    return _on(compile_fusion(build(*SUM), params), *(
        ([integers(0, m, k), integers(1, n, k), integers(2, m, 72), integers(3, n, 72)], sms)
        for m, n, k, sms in SIZES
    ))  # fmt: skip


def _eight_bits(params: MatmulParams, floats: bool) -> Made:
    scales, calls = (torch.tensor(0.5), torch.tensor(4.0)), []  # no product of any is one of them
    for m, n, k, sms in SIZES:
        dtype = torch.float8_e4m3fn if floats else torch.int8
        a, b = integers(0, m, 2 * k, dtype=dtype), integers(1, n, 2 * k, dtype=dtype).t()
        call = scaled_mm_call(a, b, *scales) if floats else int_mm_call(a, b)
        calls.append((call, sms))
    made = wsched.compile(*calls[0][0], params=narrow(params))
    return _on(made, *((inputs, sms) for (_, inputs), sms in calls))


def _rounded_to_eight(params: MatmulParams) -> Made:
    """Results of 8 bits, some of them at the largest number, and the largest absolute value."""
    text, scale = narrow_results("Float8_e4m3fn", *AMAX), torch.tensor([[60.0]])
    calls = [([integers(0, m, k), integers(1, 16 * -(-n // 16), k), scale], sms)
             for m, n, k, sms in SIZES]  # fmt: skip
    return _on(wsched.compile(text, calls[0][0], params=params), *calls)


def _computed(**params: Any) -> Made:
    """Weights of 8 bits that warps widen on their way."""
    f = fusion(cast("Int8"))
    made = compile_fusion(f, tile(f, 64, 16, 64, **params).params)
    return _on(made, *(([integers(0, m, k), integers(1, 8 * -(-n // 8), k, dtype=torch.int8)], sms)
                       for n, m, k, sms in SIZES))  # fmt: skip


def _summary(more: int) -> Made:
    """Sums of rows of some multiples of 8 elements and so many more: none for what a warp reads by
    16 bytes of each thread; else parts of a row that warpgroups put together in shared memory.
    """
    found: list[tuple[Kernel, Launch]] = []
    for rows, columns in ((40, 264), (70, 512), (8, 1032)):
        x, out = integers(0, rows, columns + more), torch.full((rows,), torch.nan)
        found += launches_of(compiled_summary(rms(2, (1,))).bind(0.5, x, out=[out]), 2)
    kernels = {id(kernel): kernel for kernel, _ in found}
    (kernel,) = kernels.values()
    return Made(kernel, tuple(launch for _, launch in found), admitted_of(kernel))


def _row_copies() -> Made:
    """Rows of any alignment into rows that TMA reads."""
    made, launches = row_kernel(DType.BF16), []
    for rows, columns, pitch in ((40, 100, 104), (130, 64, 64), (65, 257, 264)):
        source = integers(0, 1, rows, columns)
        target = torch.full((1, rows, pitch), torch.nan, dtype=source.dtype)[..., :columns]
        extents = {"B": 1, "R": rows, "C": columns}
        tensors = {"source": source, "target": target}
        launches.append(Launch(tensors, extents, evaluate(made.grid, extents)))
    return Made(made, tuple(launches), admitted_of(made))


FAMILIES: Mapping[str, Mapping[str, Callable[[], Made]]] = {
    "grouped": {
        "grouped": partial(_grouped, grouped(), _NARROW()),
        "grouped_pingpong": partial(_grouped, grouped(), ping_pong(64, 16, 32, stages=3)),
        "grouped_cluster": partial(_grouped, grouped(), _NARROW(cluster=(2, 1))),
        "grouped_delayed": partial(_grouped, grouped(), replace(_NARROW(), delayed_groups=64)),
        "grouped_gated": partial(_grouped, GATE, ping_pong(64, 16, 32, stages=3), more=True),
        "grouped_added": partial(_added, _NARROW()),
        "grouped_added_later": partial(_added, replace(_LATER, epilogue_columns=16)),
        "grouped_columns": partial(_of_groups, "columns", _FROM_REGISTERS),
        "grouped_sums": partial(_of_groups, "sums", dynamic(_ONE())),
        "grouped_first": partial(_sharing, 0, _ROWS(32)),
        "grouped_second": partial(_sharing, 1, ping_pong(64, 32, 32, stages=2)),
    },
    "reductions": {
        "reductions": partial(_reduced, _ONE()),
        "reductions_pingpong": partial(_reduced, _TURNS()),
        "reductions_exchanged": partial(_reduced, exchanged(_TURNS())),
    },
    "lists": {
        "qkv": partial(_side_by_side, _ONE()),
        "qkv_pingpong": partial(_side_by_side, _TURNS()),
    },
    "several products": {
        "gated": partial(_gated, _ONE()),
        "gated_cluster": partial(_gated, _ONE(cluster=(2, 1))),
        "two_pairs": partial(_summed, _TURNS()),
    },
    "8 bits": {
        "int8": partial(_eight_bits, _ONE(), False),
        "fp8_pingpong": partial(_eight_bits, _TURNS(), True),
        "int8_split": partial(_eight_bits, split_k(_ONE(), 2), False),
        "fp8_results": partial(_rounded_to_eight, _ONE()),
        "fp8_results_pingpong": partial(_rounded_to_eight, _TURNS()),
    },
    "computed operands": {
        "computed": _computed,
        "computed_cluster": partial(_computed, cluster_dims=ClusterDims(1, 2)),
    },
    "other types": {
        "fp16": partial(_linear, definition("f16", "f16"), _ONE()),
        "tf32": partial(_linear, _TF32, _ONE(32)),
        "tf32_pingpong": partial(_linear, _TF32, _TURNS(32)),
    },
    "tensor memory": {
        "tensor_memory": partial(_linear, definition(), _CELLS(), _LARGE),
        "tensor_memory_queue": partial(_linear, definition(), dynamic(_CELLS()), _LARGE),
        "tensor_memory_grouped": partial(_grouped, grouped(), _CELLS()),
        "tensor_memory_cluster": partial(_linear, definition(), CLUSTERS["2x1-alone"], _PAIRED),
    },
    "pairs": {
        "pairs": partial(_linear, definition(), PAIRS["registers"], _PAIRED),
        "pairs_by_tma": partial(_linear, definition(), PAIRS["tma"], _PAIRED),
        "pairs_queue": partial(_linear, definition(), PAIRS["queue"], _PAIRED),
    },
    "reductions alone": {"summary": partial(_summary, 2), "summary_long": partial(_summary, 0)},
    "row copies": {"row_copy": _row_copies},
}  # fmt: skip
