"""A definition of the user's as what is measured: its inputs, its result, its kernels.

Launches get the first input, the tuple of the others, and the result to write.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from lowering.ground.errors import UnsupportedError
from wsched.bench.method.gpu import CudaGpu
from wsched.bench.method.measure import Accuracy
from wsched.bench.method.operands import Operands, distance
from wsched.bench.peers.systems import Prepared
from wsched.bench.problem import DTYPES, Problem, Shape
from wsched.doors.fallback import interpret
from wsched.front.known import import_fusion, recorded
from wsched.fusion import DataType, TensorBinding, the_matmul
from wsched.fusion.names import COLS, ROWS, SUMMED
from wsched.importer.definition import Definition, Node, Ref
from wsched.importer.ops import MATMULS
from wsched.importer.products import wide_product
from wsched.run.arguments import torch_dtype
from wsched.run.results import new_result
from wsched.schedule.matmul.params import MatmulParams

__all__ = ["DefinitionGpu", "DefinitionOperands", "prepare_definition", "problem_of"]

_ROUNDED = 3
"""Elements may be so many times as far off as of a bare matmul
(:mod:`wsched.bench.fused.systems`)."""


def _in_fp32(text: str) -> Definition:
    """A definition in fp32, whose products are rounded to what they were."""
    wide = recorded(re.sub(r"DataType\.(BFloat16|Half)\b", "DataType.Float", text))
    operand, nodes = the_matmul(import_fusion(text)).operand, list[Node]()
    for node in wide.nodes:
        if node.op not in MATMULS or wide_product(node):
            nodes.append(node)
            continue
        (name,) = node.results
        summed, rounded = f"{name}@sum", f"{name}@{operand.name}"
        nodes.append(replace(node, results=(summed,)))
        for made, of, to in ((rounded, summed, operand), (name, rounded, DataType.Float)):
            nodes.append(Node("cast", (made,), (Ref(of),), (("dtype", to),), node.line))
    return replace(wide, nodes=tuple(nodes))


def problem_of(text: str, shape: Shape) -> Problem:
    """Return a definition's matmul, with the type and the layout that it says.

    Raises:
        UnsupportedError: a definition that wsched does not schedule, or that cannot be measured:
            with several results, or with scalars for inputs.
    """
    fusion = import_fusion(text)
    if len(fusion.outputs) != 1:
        raise UnsupportedError(f"measuring {len(fusion.outputs)} results", "one result")
    if not all(b.axes for b in fusion.inputs):
        raise UnsupportedError("measuring with inputs that are scalars", "tensors")
    product = the_matmul(fusion)
    kind = product.a.dtype.name
    dtype = next(word for word, name in DTYPES.items() if name == kind)
    layout = ("n" if product.m_major else "t") + ("t" if product.n_major else "n")
    return Problem(shape, dtype, layout)


class DefinitionOperands(Operands):
    """Sets of the first input, the others, and the result; the product has deviation 1.

    The reference is the same definition with every type fp32, by torch, but for products, which
    are rounded as it says: what compares them with another tensor would differ.

    Args:
        text: the definition.
        problem: its sizes.
        sets: how many.
        seed: of the draw.
        device: ``cuda`` or ``cpu``.
    """

    def __init__(self, text: str, problem: Problem, sets: int, seed: int, device: str) -> None:
        self._fusion = import_fusion(text)
        self._wide = _in_fp32(text)
        shape = problem.shape
        self._extents = {ROWS: shape.m, COLS: shape.n, SUMMED: shape.k, "1": 1}
        self._product = the_matmul(self._fusion)
        super().__init__(problem, sets, seed, device)

    def _set(self) -> tuple[Any, Any, Any]:
        first, *others = (self._input(b) for b in self._fusion.inputs)
        device = self._torch.device(self._device)
        d = new_result(self._fusion, self._fusion.outputs[0], self._extents, device)
        return first, tuple(others), d.fill_(float("nan"))

    def _input(self, binding: TensorBinding) -> Any:
        """A tensor in memory as the definition says it."""
        fusion, order = self._fusion, list(binding.axes)
        if binding.tensor in fusion.operands:
            order = [str(d.extent) for d in fusion.tensor(binding.tensor).in_memory]
        dtype = torch_dtype(binding.dtype)
        drawn = self._torch.randn(
            [self._extents[axis] for axis in order],
            device=self._device,
            dtype=dtype,
            generator=self._draw,
        )
        if binding.tensor == self._product.b.name:
            drawn *= self._extents[SUMMED] ** -0.5
        return drawn.permute([order.index(axis) for axis in binding.axes])

    def _reference(self, index: int) -> Any:
        first, others, _ = self.sets[index]
        wide = [t.float() if t.is_floating_point() else t for t in (first, *others)]
        return interpret(self._wide, wide)[0].float()

    def _compare(self, result: Any, index: int) -> Accuracy:
        found = distance(result, self._references[index], self._problem.tolerance)
        bound = _ROUNDED * self._problem.tolerance
        return replace(found, outliers=distance(result, self._references[index], bound).outliers)


class DefinitionGpu(CudaGpu):
    """CUDA device 0 with the inputs of a definition."""

    def __init__(self, seed: int, text: str) -> None:
        super().__init__(seed)
        self._text = text

    def draw(self, problem: Problem, sets: int) -> Operands:
        """Draw the definition's inputs."""
        return DefinitionOperands(self._text, problem, sets, self._seed, "cuda")

    def prepare(self, name: str, params: dict[str, Any] | None, problem: Problem) -> Prepared:
        """Compile a schedule of any name for the operands of the last set."""
        first, others, _ = self.operands.sets[-1]
        return prepare_definition(self._text, params, [first, *others])


def prepare_definition(text: str, params: dict[str, Any] | None, inputs: list[Any]) -> Prepared:
    """Compile a definition with a schedule, ``MatmulParams`` as a dict; None: the heuristic's.

    Raises:
        UnsupportedError, ScheduleError: as ``wsched.compile``.
    """
    import wsched

    given = None if params is None else MatmulParams.from_dict(params)
    kernel = wsched.compile(text, inputs, params=given)

    def launch(first: Any, others: Any, d: Any) -> Any:
        kernel(first, *others, out=[d])
        return d

    return Prepared(launch, {"kernel": kernel.kernel.name, "params": kernel.params.to_dict()})
