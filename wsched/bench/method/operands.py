"""Operands on a device, and whether what a system makes of them is right."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from wsched.bench.method.measure import Accuracy
from wsched.bench.peers.systems import Launch
from wsched.bench.problem import Problem

__all__ = ["Operands", "distance", "relative_error"]

_POISONINGS = 8


class Operands:
    """Sets of A, B and D, drawn from a normal distribution in the problem's layout.

    The first and the last set have an fp32 reference each: a system that confuses sets is right
    with one of them at most.

    Args:
        problem: what to compute.
        sets: how many; one or more.
        seed: of the draw.
        device: ``cuda`` or ``cpu``.
    """

    def __init__(self, problem: Problem, sets: int, seed: int, device: str) -> None:
        self._torch: Any = importlib.import_module("torch")
        self._problem, self._device = problem, device
        self._draw = self._torch.Generator(device=device).manual_seed(seed)
        self._dtype = {"bf16": self._torch.bfloat16, "fp16": self._torch.float16}[problem.dtype]
        self.sets: list[tuple[Any, Any, Any]] = [self._set() for _ in range(sets)]
        self.ends: tuple[int, ...] = tuple(dict.fromkeys((0, sets - 1)))
        self._references = {i: self._reference(i) for i in self.ends}

    def _set(self) -> tuple[Any, Any, Any]:
        shape = self._problem.shape
        a = self._operand(shape.m, self._problem.a_k_major)
        b = self._operand(shape.n, self._problem.b_k_major)
        size = (shape.m, shape.n)
        return a, b, self._torch.full(size, float("nan"), device=self._device, dtype=self._dtype)

    def _operand(self, rows: int, k_major: bool) -> Any:
        k = self._problem.shape.k
        size = (rows, k) if k_major else (k, rows)
        drawn = self._torch.randn(
            size, device=self._device, dtype=self._dtype, generator=self._draw
        )
        return drawn if k_major else drawn.t()

    def _reference(self, index: int) -> Any:
        """fp32 operands and accumulation, tf32 off."""
        a, b, _ = self.sets[index]
        return a.float() @ b.float().t()

    def launched(self, launch: Launch) -> Accuracy:
        """Launch once with each of both sets, into poisoned memory, and compare."""
        return _worst([self._compare(self._into_poison(launch, i), i) for i in self.ends])

    def _into_poison(self, launch: Launch, index: int) -> Any:
        """The result of a launch that found NaN where it writes.

        A system that allocates its result gets memory in which a right result of an earlier launch
        may lie; so its result is poisoned and given back, until one lies where poison was left.

        Raises:
            RuntimeError: each launch's result lies somewhere else.
        """
        a, b, d = self.sets[index]
        d.fill_(float("nan"))
        poisoned = {d.data_ptr()}
        for _ in range(_POISONINGS):
            result = launch(a, b, d)
            if result.data_ptr() in poisoned:
                return result
            result.fill_(float("nan"))
            poisoned.add(result.data_ptr())
            del result  # else the next launch cannot get its memory
        raise RuntimeError("its results never lie where poison was left, so they cannot be checked")

    def replayed(self, results: Sequence[Any], replay: Any) -> Accuracy:
        """Poison, replay a graph, and compare.

        Args:
            results: of each set's last launch in the graph, in the memory that it writes to.
            replay: runs the graph to its end.
        """
        for result in results:
            result.fill_(float("nan"))
        replay()
        return _worst([self._compare(results[i], i) for i in self.ends])

    def _compare(self, result: Any, index: int) -> Accuracy:
        reference = self._references[index]
        found, wanted = (tuple(result.shape), result.dtype), (tuple(reference.shape), self._dtype)
        if found != wanted:
            raise RuntimeError(f"the result is {found[0]} {found[1]}, not {wanted[0]} {wanted[1]}")
        return distance(result, reference, self._problem.tolerance)


def _worst(found: Sequence[Accuracy]) -> Accuracy:
    """The largest error, NaN above all, and all outliers."""
    error = max((a.error for a in found), key=lambda e: float("inf") if e != e else e)
    return Accuracy(error, sum(a.outliers for a in found))


def relative_error(result: Any, wanted: Any) -> float:
    """Frobenius norm of the difference over that of what is wanted, in the type of that."""
    return float((result.to(wanted.dtype) - wanted).norm() / wanted.norm())


def distance(result: Any, reference: Any, tolerance: float) -> Accuracy:
    """Return how far a tensor is from its fp32 reference; see :class:`Accuracy`."""
    norm = importlib.import_module("torch").linalg.vector_norm
    scale = norm(reference)
    rms = scale / reference.numel() ** 0.5
    off = (result.float() - reference).abs_()
    # Not "off > bound": a NaN has to count.
    near = off <= tolerance * (reference.abs() + rms)
    return Accuracy(float(norm(off) / scale), reference.numel() - int(near.sum()))
