"""Several kernels as one function: its text, what it takes, and which kernels stand in one."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from typing import Any

import pytest

from lowering.cuda.emit import emit_kernel
from lowering.cuda.launch_stack import LoadedStack
from lowering.cuda.nvrtc import compile_cubin
from lowering.cuda.resources import read_resources
from lowering.cuda.stack import alike, emit_stack
from lowering.ground.dtypes import DType
from lowering.ground.errors import InternalError, UnsupportedError
from lowering.ground.expr import ONE, Var, as_expr
from lowering.kernel.kernel import CounterArray, Kernel, TensorMap, TraceBuffer, Watch, Workspace
from tests.lowering.cuda.fake_driver import Driver, Tensor
from tests.lowering.cuda.kernels import copy_kernel


def two() -> tuple[Kernel, Kernel]:
    return copy_kernel(), replace(copy_kernel(), name="again")


def wider() -> Kernel:
    """One with more shared memory."""
    buffer = copy_kernel().shared[0]
    return two()[1].declare(replace(buffer, name="more", offset=copy_kernel().shared_bytes))


def test_text() -> None:
    """A function for each, which is told where its tensor maps are, and one with a row for each."""
    text = emit_stack("both", two())
    alone = emit_kernel(copy_kernel())
    body = alone[alone.index("  extern __shared__") :]
    taken = "const TensorMap& A, const TensorMap& D, int M, int N"
    for name in ("copy", "again"):
        assert f"__device__ __forceinline__ void {name}({taken}) {{\n" in text
    assert text.count(body) == 2
    assert text.endswith(
        """
extern "C" __global__ void __launch_bounds__(128, 1)
both(
    const __grid_constant__ TensorMap A_0,
    const __grid_constant__ TensorMap D_0,
    int M_0,
    int N_0,
    const __grid_constant__ TensorMap A_1,
    const __grid_constant__ TensorMap D_1,
    int M_1,
    int N_1) {
  switch (blockIdx.y) {
    case 0: return copy(A_0, D_0, M_0, N_0);
    case 1: return again(A_1, D_1, M_1, N_1);
  }
}
"""
    )
    found = read_resources(compile_cubin(text, "both.cu"), "both")
    assert found.clean


@pytest.mark.parametrize(
    "change",
    [
        {"splits": 2},
        {"grid_y": Var("M")},
        {"registers": 40},
        {"storage": (CounterArray("c", as_expr(1)),)},
        {"storage": (Workspace("w", DType.F32, as_expr(1), 64, 8),)},
        {"storage": (TraceBuffer("t", 4, ()),)},
        {"storage": (Watch("w", 1000),)},
        {"storage": (TensorMap("E", DType.BF16, (ONE, ONE), early=True),)},
    ],
)
def test_what_stands_in_no_stack(change: dict[str, Any]) -> None:
    """What has CTAs along y or z, or memory or registers of a launch of its own."""
    k = copy_kernel()
    found = replace(k, **{**change, "storage": (*k.storage, *change.get("storage", ()))})
    assert alike(found) is None
    with pytest.raises(InternalError, match=r"emit_stack: copy, again are not alike"):
        emit_stack("both", [found, replace(found, name="again")])


@pytest.mark.parametrize("change", [{"threads": 256}, {"cluster": 2}, {"dependent": True}])
def test_what_stands_in_another_stack(change: dict[str, Any]) -> None:
    first, second = two()
    assert alike(first) == alike(second) != alike(replace(second, **change)) is not None
    with pytest.raises(InternalError, match="are not alike"):
        emit_stack("both", [first, replace(second, **change)])


def given(*tensors: Tensor) -> Any:
    a, d = tensors
    return {"A": a, "D": d}, {"M": a.shape[0], "N": a.shape[-1]}


def test_a_launch_passes_the_parameters_of_all(driver: Driver) -> None:
    """One kernel's behind the other's, as the function takes them; CTAs along y are the kernels."""
    stack = LoadedStack("both", [two()[0], wider()], b"")
    rows = [
        given(Tensor(), Tensor(address=8192)),
        given(Tensor(shape=(7, 64)), Tensor(address=1 << 14)),
    ]
    launch = stack.prepare_rows(rows, 5)
    launch()
    (seen,) = driver.named("launch")
    assert copy_kernel().shared_bytes < wider().shared_bytes
    assert seen[1:3] == ([5, 2, 1, 128, 1, 1], wider().shared_bytes)
    block = launch._pack()
    pointers = (ctypes.c_void_p * 8).from_address(block.pointer)
    maps = [ctypes.string_at(p) for p in (*pointers[:2], *pointers[4:6]) if p]
    numbers = [ctypes.c_int32.from_address(p).value for p in (*pointers[2:4], *pointers[6:]) if p]
    assert maps == [b"map1", b"map2", b"map3", b"map4"] and numbers == [100, 128, 7, 64]


@pytest.mark.parametrize("dependent", [False, True])
def test_it_starts_as_its_kernels_do(dependent: bool, driver: Driver) -> None:
    stack = LoadedStack("both", [replace(k, dependent=dependent) for k in two()], b"")
    assert stack.starts_early(1 << 20) is dependent


def test_tensors_of_several_devices(driver: Driver) -> None:
    stack = LoadedStack("both", two(), b"")
    with pytest.raises(UnsupportedError, match="tensors of several devices"):
        stack.prepare_rows([given(Tensor(), Tensor()), given(Tensor(index=1), Tensor(index=1))], 5)
