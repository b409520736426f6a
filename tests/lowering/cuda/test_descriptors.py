"""Arrays of tensor maps, and those in device memory, as CUDA C++ and in a launch."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from lowering.cuda import launch
from lowering.cuda.emit import emit_cuda, emit_kernel
from lowering.cuda.launch import LoadedKernel
from lowering.cuda.nvrtc import compile_cubin
from lowering.cuda.resources import read_resources
from lowering.cuda.sass import disassemble
from lowering.ground.errors import InternalError
from lowering.kernel.text import parse_kernel
from tests.lowering.cuda.descriptors import GROUPS, LISTS
from tests.lowering.cuda.fake_driver import LAUNCH, Driver, Tensor
from tests.lowering.cuda.opcodes import count_opcodes


@pytest.mark.parametrize("text", [LISTS, GROUPS], ids=["lists", "groups"])
def test_text(text: str, golden: object) -> None:
    assert emit_kernel(parse_kernel(text)) == golden


@pytest.mark.parametrize("text", [LISTS, GROUPS], ids=["lists", "groups"])
def test_machine_code(text: str) -> None:
    k = parse_kernel(text)
    compiled = compile_cubin(emit_cuda(k))
    assert read_resources(compiled, k.name).clean
    counts = count_opcodes(disassemble(compiled.cubin))
    assert (counts["UTMALDG"], counts["UTMASTG"]) == (1, 1)


def test_dimensions_are_numbered_as_ptx_does() -> None:
    """The innermost one is 0 there, the outermost one here."""
    text = "kernel k threads 32 cluster 1 grid 1 { tensormap T device: f32[4, 4, 4] elect {"
    for dim in range(3):
        text += f" tensormap.replace.global_dim T, {dim}, {dim + 1}"
    source = emit_cuda(parse_kernel(text + " fence.proxy.tensormap.acquire T } }"))
    assert all(f"tensormap_replace_dim{2 - d}(T, {d + 1});" in source for d in range(3))
    assert "k(TensorMap* T)" in source.replace("\n", "").replace("    ", "")
    assert compile_cubin(source).cubin


def test_a_number_that_is_no_constant() -> None:
    text = "kernel k threads 32 cluster 1 grid 1 { param N: i32 tensormap T[N]: f32[4] }"
    with pytest.raises(InternalError) as e:
        emit_kernel(parse_kernel(text))
    assert e.value.why == "N tensor maps T as a parameter"


# --- launching -----------------------------------------------------------------------------------

TEXT = """
kernel k threads 32 cluster 1 grid 1 {
  param M: i32
  tensormap A: bf16[M, M] box 64x64
  tensormap W[2]: bf16[M, M] box 64x64
  tensormap E[M] device: bf16[M, M] box 64x64
}
"""


def test_arguments_are_packed(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """An array is one parameter; of maps in device memory the address of the first is one."""
    seen: list[Any] = []

    def read(config: Any, kernel: Any, params: Any, extra: Any) -> int:
        one, two, where, m = (ctypes.c_void_p * 4).from_address(params)
        seen.append([ctypes.string_at(p or 0) for p in (one, two, (two or 0) + 128)])
        assert not (one or 0) % 64 and not (two or 0) % 64
        seen.append(ctypes.c_int64.from_address(where or 0).value)
        seen.append(ctypes.c_int32.from_address(m or 0).value)
        return 0

    monkeypatch.setattr(launch, "launch_function", lambda: LAUNCH(read))
    tensors = {name: Tensor(address=4096 * i) for i, name in enumerate(("A", "W[0]", "W[1]"), 1)}
    tensors["E"] = Tensor((5 * 128,), (1,), 1 << 40, "torch.uint8")
    LoadedKernel(parse_kernel(TEXT), b"").launch(tensors, {"M": 5}, 1)  # type: ignore[arg-type]
    assert seen == [[b"map1", b"map2", b"map3"], 1 << 40, 5]
    assert [args[2] for args in driver.named("encode")] == [4096, 8192, 12288]


def test_an_entry_without_a_tensor(driver: Driver) -> None:
    tensors = {"A": Tensor(), "W[0]": Tensor(), "E": Tensor()}
    with pytest.raises(InternalError) as e:
        LoadedKernel(parse_kernel(TEXT), b"").launch(tensors, {"M": 5}, 1)  # type: ignore[arg-type]
    assert e.value.why == "no argument W[1]"
