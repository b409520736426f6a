"""What the segments of a definition take, and what nvFuser's own route takes beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import prod
from types import MappingProxyType
from typing import Any

from lowering.ground.errors import UnsupportedError
from lowering.target.target import Target
from lowering.target.targets import DEFAULT
from wsched.choose.arithmetic import instructions_of, swept_instructions
from wsched.choose.copy_cost import (
    APART_HOST_US,
    CALL_HOST_US,
    COPY_HOST_US,
    NUMBER_HOST_US,
    STEP_HOST_US,
    Copy,
    copies_us,
)
from wsched.choose.cost_model import LAUNCH_US
from wsched.choose.gpus import H200_SMS, Gpu
from wsched.choose.nvfuser_cost import (
    NvfuserCost,
    cublas_us,
    grouped_us,
    host_us,
    pointwise_us,
    roofline_us,
)
from wsched.choose.price import price
from wsched.choose.problem import Problem
from wsched.choose.sweep_cost import accesses_us, once
from wsched.front.cut.looks import looked
from wsched.front.cut.part import plain_name
from wsched.front.cut.pieces import pieces
from wsched.front.cut.segments import Segment
from wsched.front.cut.summaries import is_finish
from wsched.front.cut.tensors import Tensors, TensorType, sizes_of
from wsched.front.known import import_fusion
from wsched.front.look import Look, Move
from wsched.front.problems import problem_of
from wsched.front.sizes import Extents
from wsched.fusion import DataType, Fusion
from wsched.fusion.names import EXTENTS
from wsched.fusion.product import the_products
from wsched.fusion.sweep import Sweep
from wsched.importer import Node
from wsched.importer.ops import GROUPED
from wsched.run.arguments import apart, torch_dtype
from wsched.run.copies import copies
from wsched.run.layout import laid_out
from wsched.run.sweep import check_rows, compiled_sweep
from wsched.run.walk import Walk, by_rows
from wsched.schedule.entries import with_sums

__all__ = [
    "Call", "Planned", "SegmentsCost", "Sizes", "matmuls_us", "nvfuser_us", "segment_us",
    "together",
]  # fmt: skip

PROGRAM_HOST_US = CALL_HOST_US - STEP_HOST_US
"""What the host takes for a call beside its steps: to find out how its inputs' class runs."""

VIEW_HOST_US = 1.0
"""What the host takes to look at a tensor in another shape (2-core x86 machine)."""

KEPT_HOST_US = 1.0
"""What it takes to see that a constant has not changed (likewise)."""

SOONER_US = LAUNCH_US[False] - LAUNCH_US[True]
"""How much sooner a kernel begins that is launched dependently, as sweeps are and nvFuser's are not
(of matmuls, which begin behind others likewise)."""


@dataclass(frozen=True, slots=True)
class SegmentsCost:
    """Predicted microseconds of a call, on the GPU and on the host."""

    gpu_us: float
    host_us: float

    @property
    def us(self) -> float:
        """From call to call, many in a row: the GPU waits for the host where that is longer."""
        return max(self.gpu_us, self.host_us)


@dataclass(frozen=True, slots=True)
class Planned:
    """What a kernel is made for.

    Args:
        fusion: with the operands in memory as they are.
        problem: what the heuristic plans for.
        copied: operands that need copies.
        apart: inputs of the epilogue with columns apart, which each call copies.
    """

    fusion: Fusion
    problem: Problem
    copied: tuple[Copy, ...] = ()
    apart: int = 0


@dataclass(frozen=True)
class Sizes:
    """A call by its sizes alone, on an H200 unless told.

    Args:
        tensors: of the definition.
        sizes: value of each symbol.
        sms: multiprocessors of the device to plan for.
        target: what its kernels are made for.
        constants: names of inputs that stay as they are from call to call.
    """

    tensors: Tensors
    sizes: Mapping[str, int]
    sms: int = H200_SMS
    target: Target = DEFAULT
    constants: frozenset[str] = frozenset()

    def _tensor(self, name: str) -> TensorType | None:
        """What is known of a tensor, by any name that a part has for it; None of a number."""
        return self.tensors.types.get(plain_name(name))

    def shape(self, name: str) -> tuple[int, ...]:
        """Sizes of a tensor; () of a number."""
        return () if (found := self._tensor(name)) is None else found.shape(self.sizes)

    def elements(self, name: str) -> int:
        """Of a tensor; 0 of what is not known."""
        found = self._tensor(name)
        return 0 if found is None or found.spread is None else prod(self.shape(name))

    def bytes(self, names: Sequence[str]) -> int:
        """Of these tensors together; an unknown type counts four, an unknown rank nothing."""
        found = [t for t in map(self._tensor, names) if t is not None and t.dims is not None]
        return sum(_bytes(t.dtype) * prod(t.shape(self.sizes)) for t in found)

    def planned(self, segment: Segment) -> Planned:
        """How a kernel is planned where everything lies row by row."""
        fusion = import_fusion(segment.definition)
        found = dict.fromkeys(EXTENTS, 1)
        seen = {k.name: k.moves[-1].extents for k in segment.looks}
        for name, binding in zip(segment.reads, fusion.inputs, strict=True):
            shape = sizes_of(seen[name], self.sizes) if name in seen else self.shape(name)
            found |= dict(zip(binding.extents, shape, strict=True))
        found = with_sums(fusion, found)
        if 0 in found.values():
            raise UnsupportedError("a dimension of size 0", "at least one element")
        own = tuple((name, found[name]) for names in fusion.lists.values() for name in names)
        batch, heads, m, n, k = (found[name] for name in EXTENTS)
        extents = Extents(m, n, k, batch, heads, own)
        return Planned(fusion, extents.problem(fusion, self.sms, self.target))

    def swept(self, segment: Segment, sweep: Sweep) -> tuple[Walk | None, list[int]]:
        """The walk of a sweep as if everything lay row by row, and the bytes of copies: none.

        Raises:
            UnsupportedError: there is no walk over it.
        """
        seen = {look.name: look.moves[-1].extents for look in segment.looks}
        names = segment.reads
        found = [sizes_of(seen[n], self.sizes) if n in seen else self.shape(n) for n in names]
        try:
            sizes = sweep.sizes(found)
        except ValueError as e:
            raise UnsupportedError(str(e), "shapes of one index space") from None
        if 0 in sizes:
            return None, []
        if (walk := by_rows(sweep, sizes)) is None:
            raise UnsupportedError("a sweep over tensors turned two ways", "turned one way at most")
        check_rows(walk)
        return walk, []


@dataclass(frozen=True)
class Call(Sizes):
    """The tensors of a call before it has been made.

    Args:
        given: the caller's inputs by name.
        device: where they are.
        gpu: what to plan for in place of the device.
    """

    given: Mapping[str, Any] = field(default_factory=dict)
    device: Any = None
    gpu: Gpu | None = None

    def tensor(self, name: str) -> Any:
        """An input, or a tensor without memory like the one that a segment will make."""
        import torch

        if name in self.given:
            return self.given[name]
        tensor = self.tensors[name]
        if tensor.dtype is None:
            raise UnsupportedError(f"{name} of an unknown type", "types of wsched")
        dtype = torch_dtype(tensor.dtype)
        shape, strides = tensor.shape(self.sizes), self.tensors.strides(name)
        if strides is None:
            return torch.empty(shape, dtype=dtype, device="meta")
        lies = sizes_of(strides, self.sizes)
        return torch.empty_strided(shape, lies, dtype=dtype, device="meta")

    def _read(self, segment: Segment) -> tuple[list[Any], list[Copy]]:
        """What a segment reads, as it looks at it, and the copies that views take."""
        looks, inputs, copied = {k.name: k for k in segment.looks}, list[Any](), list[Copy]()
        for at, name in enumerate(segment.reads):
            look = looks.get(name, Look(name, name, ()))
            tensor, copy = _seen(self.tensor(look.source), look.moves, self.sizes, f"input {at}")
            copied += copy
            inputs.append(tensor)
        return inputs, copied

    def planned(self, segment: Segment) -> Planned:
        """How a kernel is planned for the tensors as they lie."""
        inputs, views = self._read(segment)
        fusion = laid_out(import_fusion(segment.definition), inputs)
        problem = problem_of(fusion, inputs, self.device)
        if self.gpu is not None:
            problem = problem.on(self.gpu)
        copied = (*views, *copies(fusion, inputs))
        return Planned(fusion, problem, copied, apart(fusion, inputs))

    def swept(self, segment: Segment, sweep: Sweep) -> tuple[Walk | None, list[int]]:
        """The walk over a sweep's tensors, and the bytes that copies of some move.

        Raises:
            UnsupportedError: there is no walk over them.
        """
        inputs, copied = self._read(segment)
        walk, apart = compiled_sweep(sweep).walk_and_copies(inputs)
        check_rows(walk)
        moved = [2 * inputs[at].numel() * inputs[at].element_size() for at in apart]
        return walk, [*(c.bytes for c in copied), *moved]


def _seen(
    tensor: Any, moves: Sequence[Move], sizes: Mapping[str, int], what: str
) -> tuple[Any, list[Copy]]:
    """A tensor as its view, one without memory where that takes a copy, and the copy."""
    import torch

    if not moves or not hasattr(tensor, "stride"):
        return tensor, []
    bare = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
    view = looked(bare, moves, sizes)
    if view.untyped_storage()._cdata == bare.untyped_storage()._cdata:
        return looked(tensor, moves, sizes), []
    shape = ", ".join(map(str, view.shape))
    moved = 2 * view.numel() * view.element_size()
    return view, [Copy(what, f"its elements do not lie as [{shape}]", moved)]


def _bytes(kind: DataType | None) -> int:
    return kind.bytes if kind is not None and kind.is_stored else 4


def together(costs: Sequence[SegmentsCost]) -> SegmentsCost:
    """What a call of such segments takes."""
    gpu, host = sum(c.gpu_us for c in costs), sum(c.host_us for c in costs)
    return SegmentsCost(gpu, host + PROGRAM_HOST_US)


def segment_us(
    segment: Segment, call: Sizes, cublas: Mapping[str, float] = MappingProxyType({})
) -> SegmentsCost:
    """What a segment takes, beside the call that it is a part of.

    Args:
        segment: of a cut.
        call: what is asked for.
        cublas: of :func:`matmuls_us`.

    Raises:
        UnsupportedError: a kernel or a size that there is none for.
    """
    if segment.kept:
        return SegmentsCost(0.0, KEPT_HOST_US * len(segment.inputs))
    if segment.matmul:
        p = call.planned(segment)
        host = STEP_HOST_US + COPY_HOST_US * len(p.copied) + APART_HOST_US * p.apart
        host += NUMBER_HOST_US * sum(not b.axes for b in p.fusion.inputs)
        host += VIEW_HOST_US * (len(segment.looks) + len(segment.seen))
        found = price(p.problem)
        return SegmentsCost(found.us + copies_us(p.copied) - found.spared_us, host)
    if segment.views or segment.join:
        copied = segment.copied
        host = VIEW_HOST_US * len(segment.views or segment.outputs) + COPY_HOST_US * len(copied)
        return SegmentsCost(sum(pointwise_us(2 * call.bytes([n])) for n in copied), host)
    if segment.summary:
        moved = call.bytes([*segment.inputs, *segment.outputs])
        # What follows a kernel's reductions is in what puts their parts together.
        return SegmentsCost(0.0 if is_finish(segment) else pointwise_us(moved), STEP_HOST_US)
    if segment.sweep is not None:
        return _sweep_us(segment, segment.sweep, call)
    matmul_us, kernels_us, kernels = _rest(segment, call, cublas)
    return SegmentsCost(matmul_us + kernels_us, host_us(kernels))


def _sweep_us(segment: Segment, sweep: Sweep, call: Sizes) -> SegmentsCost:
    """A kernel that accesses each element once, and what the host looks at and makes."""
    walk, copied = call.swept(segment, sweep)
    host = STEP_HOST_US + VIEW_HOST_US * (len(segment.looks) + len(segment.seen))
    host += NUMBER_HOST_US * sum(not p.dims for p in sweep.inputs) + COPY_HOST_US * len(copied)
    has = {name: call.bytes([name]) for name in segment.inputs}
    accessed = () if walk is None else once(segment.inputs, has, walk.accessed())
    work = 0.0 if walk is None else swept_instructions(walk.sweep, walk.sizes)
    gpu = accesses_us(accessed, work) - SOONER_US
    return SegmentsCost(gpu + sum(map(pointwise_us, copied)), host)


def matmuls_us(segments: Sequence[Segment], call: Sizes) -> dict[str, float]:
    """Microseconds of cuBLAS for each product, from the segments of a cut whose kernels have no
    epilogues; those of kernels with several products, or that cannot be planned, are not told.
    """
    found: dict[str, float] = {}
    for segment in segments:
        if segment.matmul and len(segment.outputs) == 1:
            with suppress(UnsupportedError):
                planned = call.planned(segment)
                if planned.problem.products == 1:
                    found[segment.outputs[0]] = cublas_us(planned.problem, planned.copied)
    return found


def nvfuser_us(segments: Sequence[Segment], call: Sizes) -> NvfuserCost:
    """NvFuser's route, from the segments of a cut whose kernels have no epilogues.

    Views between matmuls are calls of nvFuser's on the host, though no kernels.
    """
    matmul = others = 0.0
    count = 0
    for segment in segments:
        if segment.matmul:
            planned = call.planned(segment)
            gathered = _gathered_us(segment, planned, call)
            matmul += cublas_us(planned.problem, planned.copied) + sum(gathered)
            count += 1 + len(gathered) + len(segment.looks)
        elif segment.views:
            count += len(segment.views)
        else:
            matmul_us, kernels_us, kernels = _rest(segment, call, {})
            matmul, others, count = matmul + matmul_us, others + kernels_us, count + kernels
    return NvfuserCost(matmul, others, host_us(count))


def _gathered_us(segment: Segment, planned: Planned, call: Sizes) -> list[float]:
    """Copies that ATen makes of operands with two dimensions of batches, which cuBLAS has not: of
    views, where the two do not run on into one.
    """
    product = the_products(planned.fusion)[0]
    if len(product.outer) < 2:
        return []
    operands = {product.a.name, product.b.name}
    pairs = zip(segment.reads, planned.fusion.inputs, strict=True)
    looks = {look.name: look for look in segment.looks}
    views = [looks[n] for n, b in pairs if n in looks and b.tensor in operands]
    shapes = (sizes_of(v.moves[-1].extents, call.sizes) for v in views)
    apart = (shape for shape in shapes if 1 not in shape[: len(product.outer)])
    return [pointwise_us(2 * prod(shape) * product.a.dtype.bytes) for shape in apart]


def _rest(segment: Segment, call: Sizes, cublas: Mapping[str, float]) -> tuple[float, float, int]:
    """Microseconds of the matmuls and of the other kernels of a segment of nvFuser's; how many."""
    matmul_us = kernels_us = 0.0
    found = pieces(segment.definition, call.tensors.types)
    for piece in found:
        moved = call.bytes([*piece.reads, *piece.writes])
        if piece.matmul is None:
            kernels_us += pointwise_us(moved, _instructions(piece.operations, call))
        else:
            matmul_us += _left_us(piece.matmul, moved, call, cublas)
    return matmul_us, kernels_us, len(found)


def _instructions(operations: Sequence[Node], call: Sizes) -> float:
    """Lanes of instructions of operations, those of a reduction for what it reads."""
    most = (max(map(call.elements, (*n.results, *n.refs)), default=0) for n in operations)
    return instructions_of(zip((n.op for n in operations), most, strict=True))


def _left_us(matmul: Node, moved: int, call: Sizes, cublas: Mapping[str, float]) -> float:
    """A matmul by cuBLAS: as it is priced where a kernel of wsched's could stand, or at best."""
    name = plain_name(matmul.results[0])
    result, (left, right) = call.shape(name), map(call.shape, matmul.refs[:2])
    flops = 2 * prod(result) * (left[-1] if left else 1)
    if matmul.op == GROUPED:
        (groups,) = call.shape(matmul.refs[2])
        shared_out = len(left) == len(right)  # so that each of the results has a part of the sums
        return grouped_us(groups, flops / groups if shared_out and groups else flops, moved)
    return cublas[name] if name in cublas else roofline_us(flops, moved)
