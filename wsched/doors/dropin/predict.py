"""What the segments of a definition take, and what nvFuser's own route takes beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from lowering.ground.errors import UnsupportedError
from wsched.choose.copy_cost import CALL_HOST_US, COPY_HOST_US, PACK_HOST_US, copies_us
from wsched.choose.heuristics import ranked
from wsched.choose.nvfuser_cost import NvfuserCost, cublas_us, host_us, pointwise_us, roofline_us
from wsched.choose.problem import Problem
from wsched.doors.dropin.graph import MATMULS
from wsched.doors.dropin.segments import Segment
from wsched.doors.dropin.tensors import TensorType
from wsched.doors.fallback.torch_ops import torch_dtype
from wsched.front.known import import_fusion
from wsched.front.problems import problem_of
from wsched.run.arguments import reads_in_place
from wsched.run.copies import copies
from wsched.run.layout import laid_out

if TYPE_CHECKING:
    import torch

    from wsched.choose.copy_cost import Copy

__all__ = ["Call", "SegmentsCost", "nvfuser_us", "segments_us"]


@dataclass(frozen=True, slots=True)
class SegmentsCost:
    """Predicted microseconds of a call, on the GPU and on the host."""

    gpu_us: float
    host_us: float

    @property
    def us(self) -> float:
        """From call to call, many in a row: the GPU waits for the host where that is longer."""
        return max(self.gpu_us, self.host_us)


@dataclass(frozen=True)
class Call:
    """The tensors of a call before it has been made.

    Args:
        types: of all tensors of the definition.
        sizes: of nvFuser's symbols.
        given: the caller's inputs by name.
        device: where they are.
    """

    types: Mapping[str, TensorType]
    sizes: Mapping[str, int]
    given: Mapping[str, Any]
    device: torch.device

    def tensor(self, name: str) -> Any:
        """An input, or a tensor without memory like the one that a segment will make."""
        import torch

        if name in self.given:
            return self.given[name]
        tensor = self.types[name]
        if tensor.dtype is None:
            raise UnsupportedError(f"{name} of an unknown type", "types of wsched")
        dtype = torch_dtype(tensor.dtype.name)
        return torch.empty(tensor.shape(self.sizes), dtype=dtype, device="meta")

    def shape(self, name: str) -> tuple[int, ...]:
        """Sizes of a tensor; () of a scalar."""
        return self.types[name].shape(self.sizes) if name in self.types else ()

    def bytes(self, names: Sequence[str]) -> int:
        """Of these tensors together; an unknown type counts four."""
        kinds = ((self.types[n].dtype, self.shape(n)) for n in names if n in self.types)
        return sum((4 if kind is None else kind.bytes) * prod(shape) for kind, shape in kinds)


def segments_us(segments: Sequence[Segment], call: Call) -> SegmentsCost:
    """Segments one after the other.

    Raises:
        UnsupportedError: a kernel or a size that there is none for.
    """
    gpu = host = 0.0
    for segment in segments:
        if segment.matmul:
            problem, needed, packed = _problem(segment, call)
            gpu += ranked(problem)[0][0] + copies_us(needed)
            host += COPY_HOST_US * len(needed) + (CALL_HOST_US if packed else PACK_HOST_US)
        else:
            matmul_us, kernels_us, kernels = _rest(segment, call)
            gpu += matmul_us + kernels_us
            host += host_us(kernels)
    return SegmentsCost(gpu, host)


def nvfuser_us(segments: Sequence[Segment], call: Call) -> NvfuserCost:
    """NvFuser's route, from the segments of a cut whose kernels have no epilogues."""
    matmul = others = 0.0
    count = 0
    for segment in segments:
        if segment.matmul:
            problem, needed, _ = _problem(segment, call)
            matmul += cublas_us(problem, needed)
            count += 1
        else:
            matmul_us, kernels_us, kernels = _rest(segment, call)
            matmul, others, count = matmul + matmul_us, others + kernels_us, count + kernels
    return NvfuserCost(matmul, others, host_us(count))


def _problem(segment: Segment, call: Call) -> tuple[Problem, tuple[Copy, ...], bool]:
    """What a kernel is planned for, the copies it needs, whether a call is packed once for all."""
    inputs = [call.tensor(name) for name in segment.inputs]
    fusion = laid_out(import_fusion(segment.definition), inputs)
    problem = problem_of(fusion, inputs, call.device)
    return problem, copies(fusion, inputs), reads_in_place(fusion, inputs)


def _rest(segment: Segment, call: Call) -> tuple[float, float, int]:
    """Microseconds of the matmuls and of the other kernels of a segment of nvFuser's; how many."""
    matmul_us, matmuls = 0.0, 0
    for node in segment.definition.nodes:
        if node.op in MATMULS:
            result, left = call.shape(node.results[0]), call.shape(node.refs[0])
            matmuls += 1
            moved = call.bytes([*node.results, *node.refs])
            matmul_us += roofline_us(2 * prod(result) * (left[-1] if left else 1), moved)
    moved = call.bytes([*segment.inputs, *segment.outputs])
    alone = all(n.op in MATMULS or n.is_input for n in segment.definition.nodes)
    if alone:
        return matmul_us, 0.0, matmuls
    return matmul_us, pointwise_us(moved), matmuls + 1
