"""Run a kernel on random inputs and compare it with the same computation in fp32.

With torch the kernel runs as ``wsched.execute`` runs it; without torch it runs on the machine model
with NumPy, so that a checkout without nvFuser and torch can still be tried.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from time import perf_counter
from typing import Any

import numpy as np

from lowering.cuda.driver import has_driver
from lowering.target.target import Target
from lowering.target.targets import DEFAULT, target_of_device
from wsched.choose.gpus import gpu_of
from wsched.front.drawn import (
    drawn_inputs,
    drawn_values,
    extents_of_arrays,
    machine_arrays,
    of_product,
    plain,
    rounded,
)
from wsched.front.sizes import Extents
from wsched.fusion import DataType, Fusion, Role, TensorView, products
from wsched.run.compiled import CompiledFusion
from wsched.run.counts import require_countable
from wsched.run.cpu import grid_on_cpu, refuse_large, run_arrays
from wsched.run.finish import finished
from wsched.run.in_groups import own_parts, rows_added, sums_of_groups
from wsched.run.reference import computed_operands, joined, multiplied, reference
from wsched.run.words import of_words
from wsched.schedule.entries import with_sums

__all__ = [
    "TOLERANCE",
    "Outcome",
    "check",
    "device",
    "multiprocessors",
    "random_inputs",
    "sized_inputs",
    "target_here",
]

TOLERANCE = {
    DataType.BFloat16: 4e-3, DataType.Half: 6e-4, DataType.Float: 2e-5, DataType.Int32: 2e-5,
    DataType.Float8_e4m3fn: 6.3e-2, DataType.Float8_e5m2: 1.3e-1,
}  # fmt: skip
"""Relative Frobenius error against fp32 that rounding to a type may cause."""

SUMMED = {True: 3e-4, False: 8e-3}
"""The same of sums that the tensor core keeps with few bits, by whether they are promoted."""

TF32 = 1e-3
"""The same of operands of TF32: 2.9e-4 where TMA rounds them, 7.8e-4 where a schedule by calls has
threads copy them, of which the tensor core cuts the lower bits off (H200, 2026-11-24)."""

LARGEST = {
    DataType.BFloat16: 3.3895e38, DataType.Half: 65504.0, DataType.Float: 3.4028e38,
    DataType.Int32: 2.0**31 - 1, DataType.Float8_e4m3fn: 448.0, DataType.Float8_e5m2: 57344.0,
}  # fmt: skip
"""The largest finite value of a type."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of a check; ``text`` says what was compared and how it came out.

    Args:
        passed: whether ``error`` is below ``limit``.
        error: relative Frobenius error of what is finite, against matmuls of the same inputs in
            fp32; infinite if a value is inf or nan where the other one is not.
        limit: the tolerance of the coarsest type that the result was rounded to.
        seconds: wall time of the run, without compiling.
        text: for people, a few lines.
    """

    passed: bool
    error: float
    limit: float
    seconds: float
    text: str

    def to_dict(self) -> dict[str, Any]:
        """The same for programs; an error that is no number is None."""
        error = self.error if math.isfinite(self.error) else None
        return {
            "passed": self.passed,
            "error": error,
            "limit": self.limit,
            "seconds": self.seconds,
            "text": self.text,
        }


def target_here() -> Target:
    """That of the GPU that torch sees; the first one where there is none that has kernels."""
    return _target() or DEFAULT


def _target() -> Target | None:
    if not has_driver() or find_spec("torch") is None:
        return None  # without a driver torch, whose import takes seconds, has nothing to say
    import torch

    return target_of_device(torch)


def device(target: Target | None = None) -> str:
    """``cuda`` if torch sees a GPU of a target, without one a GPU that there are kernels for; else
    ``cpu``.
    """
    here = _target()
    if here is None or (target is not None and target.arch != here.arch):
        return "cpu"
    return "cuda"


def multiprocessors(asked: int | None = None, target: Target | None = None) -> int:
    """SMs to plan for: those asked for, else those of the GPU that is here, else those of the first
    GPU of a target, without one an H200's.
    """
    if asked is not None or device(target) == "cpu":
        return asked or gpu_of(target or DEFAULT).sms
    import torch

    return int(torch.cuda.get_device_properties("cuda").multi_processor_count)


def random_inputs(fusion: Fusion, extents: Extents, seed: int, where: str) -> list[Any]:
    """Normally distributed inputs, and integers of all values, in the order of the definition, in
    memory as it says.

    Torch tensors on device ``where``, or NumPy arrays if there is no torch.
    """
    if find_spec("torch") is None:
        return drawn_inputs(fusion, extents, seed)
    import torch

    from wsched.run.arguments import torch_dtype

    found = []
    for binding, values, axes in drawn_values(fusion, extents, seed):
        tensor = torch.empty(values.shape, dtype=torch_dtype(binding.dtype))
        found.append(tensor.copy_(torch.from_numpy(values)).to(where).permute(axes))
    return found


def sized_inputs(kernel: CompiledFusion, extents: Extents, seed: int, where: str) -> list[Any]:
    """Random inputs, of sizes that the kernel takes on the CPU: others are refused before they take
    memory.

    Raises:
        UnsupportedError: sizes that no launch has, or that are too much for the machine model.
    """
    if where == "cpu":
        sizes = with_sums(kernel.fusion, extents.named(kernel.fusion))
        grid = grid_on_cpu(kernel.kernel, sizes)
        require_countable(kernel.plan, sizes, grid)
        if grid:
            refuse_large(kernel.kernel, sizes)
    return random_inputs(kernel.fusion, extents, seed, where)


def check(kernel: CompiledFusion, inputs: list[Any]) -> Outcome:
    """Run ``kernel`` on ``inputs`` and compare the results with the same in fp32.

    Raises:
        InputError: the inputs do not fit the definition.
        UnsupportedError: a layout or size that the device or the machine model does not take.
    """
    fusion = kernel.fusion
    said = [_said(b.dtype, x) for b, x in zip(fusion.inputs, inputs, strict=True)]
    given, ends = partial(_in_fp32, fusion, said), _ends(fusion, said)
    if isinstance(inputs[0], np.ndarray):
        where, by = "the machine model (CPU, byte for byte)", "NumPy"
        got, seconds = _run_numpy(kernel, inputs)
        computed = computed_operands(fusion, given, _as_held)
        made = multiplied(fusion, said, sums_of_groups(_einsum_numpy, ends), computed=computed)
    else:
        import torch

        on_gpu = inputs[0].is_cuda
        where = torch.cuda.get_device_name() if on_gpu else "the machine model (CPU, byte for byte)"
        by = "torch"
        got, seconds = _run_torch(kernel, inputs)
        computed = computed_operands(fusion, given, _as_held_by_torch)
        on = {n: torch.from_numpy(x).to(inputs[0].device) for n, x in computed.items()}
        made = multiplied(fusion, said, sums_of_groups(_einsum_torch, ends), torch.cat, on)
    extents = extents_of_arrays(fusion, inputs)
    whole = reference(fusion, made, _epilogue_inputs(fusion, said), extents)
    bound = zip(fusion.outputs, whole, strict=True)
    own = ((b, own_parts(fusion, b, value, ends)) for b, value in bound)
    beside, end = _beside(fusion, said), int(ends[-1]) if len(ends) else 0
    expected = [rows_added(b, value, beside, end) for b, value in own]
    types = [b.dtype for b in fusion.outputs]
    error = max(map(_error, got, expected, types))
    odd = sum(int(np.count_nonzero(~np.isfinite(x))) for x in got)
    limit = max((*(TOLERANCE[t.dtype] for t in _results(fusion)), *_summed(fusion, said)))
    passed = error < limit
    sizes = dict(zip(fusion.result_axes, next(iter(made.values())).shape, strict=True))
    axes = fusion.matrices[0].axes if fusion.matrices else fusion.result_axes
    shape = " x ".join(str(sizes[a]) for a in axes)
    groups = f" in {len(ends)} group{'s' * (len(ends) != 1)}" if fusion.groups is not None else ""
    kinds = [str(b.dtype) for b in fusion.outputs]
    text = (
        f"{'RIGHT' if passed else 'WRONG'}: {shape}{groups} {' and '.join(kinds)} result against "
        f"{by} in fp32\n"
        f"  relative error (Frobenius norm) {error:.1e}, limit {limit:.0e}{_odd(odd, error)}\n"
        f"  {', '.join(k.kernel.name for k in kernel.launched)}\n"
        f"  ran on {where} in {seconds:.2g} s\n"
    )
    return Outcome(passed, error, limit, seconds, text)


def _summed(fusion: Fusion, inputs: Sequence[Any]) -> Iterator[float]:
    """What may come of the bits that sums of products lack.

    Sums of fp16 are rounded by every instruction, by up to half of their last bit, now up, now
    down: the error grows with the root of the number of instructions.
    """
    sizes = {a: n for b, x in zip(fusion.inputs, inputs, strict=True)
             for a, n in zip(b.axes, x.shape, strict=True)}  # fmt: skip
    for p in products(fusion):
        element = p.a.dtype.element
        if p.a.dtype is DataType.TF32:
            yield TF32
        form = DEFAULT.mma.multiplying(element, p.b.dtype.element)
        if form is not None and form.promotion:
            yield SUMMED[p.mma.promotion > 0]
        if fusion.tensor(p.mma.output).dtype is DataType.Half:
            summed = math.prod(sizes[name] for name in p.names(Role.K))
            yield TOLERANCE[DataType.Half] * math.sqrt(max(1, summed // DEFAULT.mma.k(element)))


def _odd(count: int, error: float) -> str:
    """What to say of values that are inf or nan."""
    if math.isinf(error):
        return "; inf or nan in other places than expected"
    return f"; {count} values are inf or nan, as expected" if count else ""


def _error(got: Any, expected: Any, dtype: DataType) -> float:
    """Relative error by the Frobenius norm, in fp64; infinite where one alone is not finite.

    Beside the largest value of the result's type, an infinity counts as that value.
    """
    got, expected = np.asarray(got, np.float64), np.asarray(expected, np.float64)
    largest = LARGEST[dtype]
    near = largest * (1 - TOLERANCE[dtype])
    pair = got, expected
    got, expected = (
        np.where(np.isinf(x) & np.isfinite(y) & (np.abs(y) >= near), np.copysign(largest, x), x)
        for x, y in (pair, pair[::-1])
    )
    finite = np.isfinite(got) & np.isfinite(expected)
    if not np.array_equal(got[~finite], expected[~finite], equal_nan=True):
        return math.inf
    scale = float(np.linalg.norm(expected[finite])) or 1.0
    return float(np.linalg.norm(got[finite] - expected[finite])) / scale


def _einsum_numpy(formula: str, x: Any, y: Any) -> Any:
    wide = (np.asarray(v, np.float32) for v in (x, y))
    return np.einsum(formula, *wide, optimize=True)


def _einsum_torch(formula: str, x: Any, y: Any) -> Any:
    import torch

    wide = [torch.as_tensor(v).float() for v in (x, y)]  # scaled operands are NumPy's
    on = next((v.device for v in wide if v.is_cuda), wide[0].device)
    return torch.einsum(formula, *(v.to(on) for v in wide)).cpu().numpy()


def _as_held(values: Any, dtype: DataType) -> Any:
    return np.asarray(rounded(values, dtype), np.float32)


def _as_held_by_torch(values: Any, dtype: DataType) -> Any:
    import torch

    from wsched.run.arguments import torch_dtype

    held = torch.from_numpy(np.ascontiguousarray(values, np.float32)).to(torch_dtype(dtype))
    return held.float().numpy()


def _said(dtype: DataType, given: Any) -> Any:
    """An input as the definition says it: of words their integers, as a NumPy array."""
    if dtype.element.packed == 1:
        return given
    return of_words(given.cpu().numpy() if hasattr(given, "is_cuda") else given)


def _ends(fusion: Fusion, inputs: Sequence[Any]) -> Any:
    """Where groups end, as a NumPy array; empty where there are none."""
    if fusion.groups is None:
        return np.empty(0, np.int64)
    at = next(n for n, b in enumerate(fusion.inputs) if b.key == fusion.groups.ends)
    given = inputs[at]
    return np.asarray(given.cpu() if hasattr(given, "is_cuda") else given)


def _in_fp32(fusion: Fusion, inputs: list[Any], name: str) -> Any:
    """An input by its tensor, as a NumPy array."""
    x = next(x for b, x in zip(fusion.inputs, inputs, strict=True) if b.tensor == name)
    return np.asarray(x.float().cpu() if hasattr(x, "is_cuda") else x, np.float32)


def _epilogue_inputs(fusion: Fusion, inputs: list[Any]) -> dict[str, Any]:
    """The others in fp32, as the product has them, without their dimensions of size 1."""
    values = [
        None
        if b.tensor in fusion.inside
        else np.asarray(x.float().cpu() if hasattr(x, "is_cuda") else x, np.float32)
        for b, x in zip(fusion.inputs, inputs, strict=True)
    ]
    found = {}
    for name, (axes, array) in joined(fusion, values, _side_by_side).items():
        if name not in fusion.inside:
            array = array.reshape(plain(axes, array.shape))
            found[name] = array.transpose(of_product(fusion, axes))
    return found


def _beside(fusion: Fusion, inputs: list[Any]) -> dict[str, Any]:
    """Those that no expression reads."""
    return {name: _in_fp32(fusion, inputs, name) for name in fusion.beside}


def _side_by_side(parts: list[Any], dim: int) -> Any:
    return None if parts[0] is None else np.concatenate(parts, dim)


def _results(fusion: Fusion) -> list[TensorView]:
    """The accumulator and all numbers that are computed behind it."""
    made = [fusion.tensor(e.output) for e in fusion.exprs]
    first = made.index(fusion.tensor(fusion.mmas[0].output))
    return [t for t in made[first:] if t.dtype in TOLERANCE]


def _run_torch(kernel: CompiledFusion, inputs: list[Any]) -> tuple[list[Any], float]:
    import torch

    if inputs[0].is_cuda:
        kernel(*inputs)  # compiles and loads
    start = perf_counter()
    results = kernel(*inputs)
    if results[0].is_cuda:
        torch.cuda.synchronize()
    seconds = perf_counter() - start
    arrays = [r.float().cpu().numpy() for r in results]
    bound = zip(arrays, kernel.fusion.outputs, strict=True)
    return [
        x.reshape(plain(b.axes, x.shape)).transpose(of_product(kernel.fusion, b.axes))
        for x, b in bound
    ], seconds


def _run_numpy(kernel: CompiledFusion, inputs: list[Any]) -> tuple[list[Any], float]:
    fusion, bound = kernel.fusion, machine_arrays(kernel, inputs)
    start = perf_counter()
    if bound.results[0].size:
        for each in kernel.launched:
            run_arrays(each.kernel, bound.arrays, bound.extents)
    whole = (finished(fusion, b, r) for b, r in zip(fusion.outputs, bound.results, strict=True))
    return [np.asarray(r, np.float32) for r in whole], perf_counter() - start
