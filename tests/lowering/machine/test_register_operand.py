"""wgmma with A in registers, on the machine: right ones, and what it must not be done to."""

from __future__ import annotations

import re

import numpy as np
import pytest

from lowering.kernel.kernel import Kernel
from lowering.kernel.text import parse_kernel
from lowering.kernel.verify import verify
from lowering.machine import MachineError, run_kernel
from lowering.proof.agent import agents
from lowering.proof.order import kept
from tests.lowering.machine.kernels import from_dtype, integers, matmul_text, to_dtype


def from_registers(text: str) -> str:
    """The sample matmul with A by ldmatrix, one instruction's K at a time."""
    steps = re.findall(r"a_s\[stage2, g \* 64, (\d+)\], b_s", text)
    loads = [f"left{k}: frag<bf16, 64x16> = ldmatrix a_s[stage2, g * 64, {k}]" for k in steps]
    text = text.replace("wgmma.fence", "\n".join([*loads, "wgmma.fence"]))
    text = re.sub(r"a_s\[stage2, g \* 64, (\d+)\], b_s", r"left\1, b_s", text)
    release = "elect { mbarrier.arrive empty[stage2] }"
    return text.replace(release, f"fence.proxy.async\nwarp.sync\n{release}")


def right(text: str, adversary: str = "random", seed: int = 0) -> bool:
    rng = np.random.default_rng(seed)
    m, n, k = 200, 136, 136
    a, b = integers(rng, m, k), integers(rng, n, k)
    d = to_dtype(np.full((m, n), np.nan, np.float32), "bf16")
    sizes = {"M": m, "N": n, "K": k}
    run_kernel(
        parse_kernel(text), {"a": a, "b": b, "d": d}, sizes, 2, seed=seed, adversary=adversary
    )
    want = from_dtype(a, "bf16") @ from_dtype(b, "bf16").T
    return bool(np.array_equal(from_dtype(d, "bf16"), want))


@pytest.mark.parametrize("seed", range(3))
def test_a_product_with_a_from_registers(seed: int) -> None:
    text = from_registers(matmul_text())
    assert verify(parse_kernel(text)) == []
    assert right(text, seed=seed)


SMALL = """
kernel k threads 128 cluster 1 grid 1 {
  shared S: bf16[1][64x64] swizzle 128 at 0
  x: frag<f32, 64x32> = frag.fill 1.0
  a: frag<bf16, 64x32> = frag.fill 1.0
  for i in 0 .. 2 carry (acc: frag<f32, 64x32, async> = x -> last) {
    b: frag<bf16, 64x16> = frag.fill 2.0
    wgmma.fence
    y: frag<f32, 64x32, async> = wgmma acc, b, S[0, 0, 0]
    wgmma.commit
    z: frag<f32, 64x32, async> = wgmma.wait y, 0
    yield z
  }
  sum: frag<f32, 64x32> = wgmma.wait last, 0
}
"""


def edited(*edits: tuple[str, str]) -> Kernel:
    text = SMALL
    for old, new in edits:
        assert text.count(old) == 1
        text = text.replace(old, new)
    return parse_kernel(text)


def run(*edits: tuple[str, str]) -> None:
    run_kernel(edited(*edits), {}, {}, 1, adversary="lazy")


def kept_of(*edits: tuple[str, str]) -> list[str]:
    """What is wrong with the registers of operands."""
    return [o.why for o in kept(agents(edited(*edits))) if o.open]


LATE = ("= wgmma.wait y, 0", "= wgmma.wait y, 1")
OUTSIDE = (
    "b: frag<bf16, 64x16> = frag.fill 2.0", "b: frag<bf16, 64x16> = frag.columns a, i * 16",
)  # fmt: skip


def test_registers_are_free_behind_the_wait() -> None:
    run()


def test_written_while_a_wgmma_may_read_them() -> None:
    with pytest.raises(MachineError) as error:
        run(LATE)
    assert error.value.what == (
        "fragment b is written while it may be read by: "
        "y: frag<f32, 64x32, async> = wgmma acc, b, S[0, 0, 0]"
    )


CARRIED = (
    ("  for i in 0 .. 2 carry (acc", "  first: frag<bf16, 64x16> = frag.fill 1.0\n"
     "  for i in 0 .. 2 carry (b: frag<bf16, 64x16> = first -> end, acc"),
    ("    b: frag<bf16, 64x16> = frag.fill 2.0\n", ""),
    ("yield z", "yield next, z"),
)  # fmt: skip
"""What a product multiplies was made by the trip before, in the registers of what that had."""
MADE = "    next: frag<bf16, 64x16> = frag.fill 2.0\n"


def test_made_anew_behind_the_wait() -> None:
    edits = (*CARRIED, ("    yield", f"{MADE}    yield"))
    run(*edits)
    assert kept_of(*edits) == []


def test_made_anew_while_a_wgmma_may_read_what_it_replaces() -> None:
    """The plan of registers asks for reads where they are issued; who waits is asked here."""
    edits = (*CARRIED, ("    z: frag", f"{MADE}    z: frag"))
    with pytest.raises(MachineError) as error:
        run(*edits)
    assert error.value.what == (
        "fragment next is written while it may be read by: "
        "y: frag<f32, 64x32, async> = wgmma acc, b, S[0, 0, 0]"
    )
    assert kept_of(*edits) == ["frag.fill writes next, which a wgmma in flight may read"]


def test_parts_of_what_nobody_writes_may_be_read_late() -> None:
    run(LATE, OUTSIDE)


def test_written_in_front_of_the_wgmma_without_a_fence() -> None:
    fence = "    wgmma.fence\n"
    with pytest.raises(MachineError) as error:
        run((fence, ""), ("    b: frag", "    wgmma.fence\n    b: frag"))
    assert error.value.what == "no wgmma.fence after the last access to fragment b"


def test_a_value_is_updated_once() -> None:
    text = """
    kernel k threads 128 cluster 1 grid 1 {
      a: frag<f32, 64x32> = frag.fill 1.0
      y: frag<f32, 64x32> = frag.update add, a, 1.0
      z: frag<f32, 64x32> = frag.update add, a, 1.0
    }
    """
    with pytest.raises(MachineError) as error:
        run_kernel(parse_kernel(text), {}, {}, 1)
    assert error.value.what == (
        "the registers of fragment a were taken by: y: frag<f32, 64x32> = frag.update add, a, 1.0"
    )
