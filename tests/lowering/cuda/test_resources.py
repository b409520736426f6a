from __future__ import annotations

import pytest

from lowering.cuda.elf import kernel_info
from lowering.cuda.nvrtc import Compiled, compile_cubin
from lowering.cuda.resources import Resources, complaints, read_resources
from lowering.ground.errors import InternalError

SPILLED = """\
ptxas warning : Registers are spilled to local memory in function 'sp', 808 bytes spill stores, \
788 bytes spill loads
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'other' for 'sm_90a'
ptxas info    : Function properties for other
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, used 0 barriers
ptxas info    : Compiling entry function 'sp' for 'sm_90a'
ptxas info    : Function properties for sp
ptxas         .     352 bytes stack frame, 808 bytes spill stores, 788 bytes spill loads
ptxas info    : Used 64 registers, used 1 barriers, 352 bytes cumulative stack size
ptxas info    : Compile time = 55.085 ms
"""
NVCC = SPILLED.replace("ptxas         .     352", "    352")
SERIALIZED = """\
ptxas info    : (C7514) Potential Performance Loss: wgmma.mma_async instructions are serialized \
due to non wgmma instructions reading accumulator registers of  a wgmma between start and end of \
the pipeline stage in the function 'k'
ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to determine \
register count at entry.
ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to determine \
register count at entry.
ptxas fatal   : (C7602) Insufficient registers (128) to compile instruction at line 673 in \
function k. Try to compile with register target of 154 or higher.
"""
KERNELS = (
    'extern "C" __global__ void other() {}'
    'extern "C" __global__ void __launch_bounds__(64, 1) sp(float* p) {'
    "  __shared__ float s[128]; s[threadIdx.x] = p[threadIdx.x]; __syncthreads();"
    "  p[threadIdx.x] = s[127 - threadIdx.x]; }"
)


@pytest.fixture(scope="module")
def compiled() -> Compiled:
    return compile_cubin(KERNELS)


@pytest.mark.parametrize("log", [SPILLED, NVCC])
def test_spills_come_from_the_log_of_the_right_kernel(compiled: Compiled, log: str) -> None:
    logged = Compiled(compiled.cubin, log, (13, 0), 0.0)
    spilled, other = read_resources(logged, "sp"), read_resources(logged, "other")
    assert (spilled.spill_stores, spilled.spill_loads, spilled.barriers) == (808, 788, 1)
    assert (other.spill_stores, other.spill_loads, other.barriers) == (0, 0, 0)
    assert not spilled.clean


def test_registers_and_shared_memory_come_from_the_elf(compiled: Compiled) -> None:
    r = read_resources(compiled, "sp")
    info = kernel_info(compiled.cubin)["sp"]
    assert 0 < r.registers == info.registers < 64
    assert (r.stack, r.static_shared, r.barriers) == (0, 512, 1)
    assert r.code == info.code > 0
    assert r.clean


def test_cluster_dimensions() -> None:
    text = 'extern "C" __global__ void __cluster_dims__(2, 1, 1) k() {}'
    assert kernel_info(compile_cubin(text).cubin)["k"].cluster == (2, 1, 1)


def test_complaints() -> None:
    assert [c[:5] for c in complaints(SERIALIZED)] == ["C7514", "C7508", "C7602"]
    assert complaints(SPILLED) == (
        "Registers are spilled to local memory in function 'sp', 808 bytes spill stores, "
        "788 bytes spill loads",
    )


def test_text() -> None:
    r = Resources("k", 168, 8, 4, 2, 0, 16, 9088, ("C7508: ignored",))
    assert str(r) == (
        "k: 168 registers at entry, 8 bytes of stack, 4 + 2 bytes spilled (stores + loads), "
        "0 bytes of static shared memory, 16 barriers, 9088 bytes of code\n  C7508: ignored"
    )


def test_each_fault_makes_it_unclean() -> None:
    assert Resources("k", 168, 0, 0, 0, 1024, 1, 1).clean
    for faults in ((8, 0, 0), (0, 4, 0), (0, 0, 4)):
        assert not Resources("k", 168, *faults, 0, 1, 1).clean
    assert not Resources("k", 168, 0, 0, 0, 0, 1, 1, ("C7510: serialized",)).clean


def test_missing_kernel_is_rejected(compiled: Compiled) -> None:
    with pytest.raises(InternalError) as e:
        read_resources(compiled, "nobody")
    assert e.value.why == "the cubin has no kernel nobody"
    with pytest.raises(InternalError) as e:
        read_resources(Compiled(compiled.cubin, "", (13, 0), 0.0), "sp")
    assert e.value.why == "the log of ptxas does not report sp"


def test_bytes_that_are_no_cubin_are_rejected(compiled: Compiled) -> None:
    with pytest.raises(InternalError) as e:
        kernel_info(b"\x7fELF\x01")
    assert e.value.why == "the cubin is not a 64-bit ELF file"
    with pytest.raises(InternalError, match="the cubin is damaged"):
        kernel_info(compiled.cubin[: len(compiled.cubin) // 2])
