"""Store buffers over the operands' stages: the text, the kernels, and faults that must show."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from lowering.ground.errors import UnsupportedError
from lowering.kernel.kernel import Kernel
from lowering.kernel.text import parse_kernel, print_kernel
from lowering.kernel.verify import verify
from lowering.machine import MachineError
from lowering.proof.prove import prove
from passes.reuse_stages import reuse_stages
from tests.on_machine import Problem, exact, kernel, operands, run
from tests.passes.texts import full, lowered, unchanged
from tests.proofs import proved
from tests.schedules import cooperative, pipelined, split_k
from wsched.run.counts import admitted_by
from wsched.schedule.matmul.params import MatmulParams

ODD = Problem(200, 136, 136, 12)
ONE = cooperative(128, 64, stages=3, persistent=False, epilogue_stages=1)

BEFORE = """
tensormap D: bf16[512, 512] box 64x64 swizzle 128
shared A_s: bf16[1][64x64] swizzle 128
shared D_s: bf16[1][64x64] swizzle 128
roles {
  role compute warps 0 .. 8 as group {
    zero: frag<f32, 64x64> = frag.fill 0.0
    wgmma.fence
    acc: frag<f32, 64x64, async> = wgmma zero, A_s[0, 0, 0], A_s[0, 0, 0]
    wgmma.commit
    total: frag<f32, 64x64> = wgmma.wait acc, 0
    out: frag<bf16, 64x64> = frag.cast total
    stmatrix D_s[0, 0, 0], out
    elect {
      tma.store D[0, 0], D_s[0, 0, 0]
    }
  }
}
"""


def reusing(params: MatmulParams) -> MatmulParams:
    return replace(params, promote_prologue_smem_reuse=True)


def test_a_meeting_behind_the_products() -> None:
    after = BEFORE.replace(
        "shared D_s: bf16[1][64x64] swizzle 128",
        "shared D_s: bf16[1][64x64] swizzle 128 over A_s\nnamed_barrier stages_read[1] threads 256",
    ).replace("wgmma.wait acc, 0\n", "wgmma.wait acc, 0\n    bar.sync stages_read[0]\n")
    assert lowered(reuse_stages, BEFORE, promote_prologue_smem_reuse=True) == full(after)
    assert unchanged(reuse_stages, BEFORE)


def test_the_meeting_is_behind_the_last_products() -> None:
    """Of several that are waited for one by one; the storage is over all that they read."""
    more = """
    wgmma.fence
    more: frag<f32, 64x64, async> = wgmma total, A_s[0, 0, 0], B_s[0, 0, 0]
    wgmma.commit
    all: frag<f32, 64x64> = wgmma.wait more, 0
    out: frag<bf16, 64x64> = frag.cast all"""
    before = BEFORE.replace("\n    out: frag<bf16, 64x64> = frag.cast total", more)
    before = before.replace("shared D_s", "shared B_s: bf16[1][64x64] swizzle 128\nshared D_s")
    after = before.replace(
        "shared D_s: bf16[1][64x64] swizzle 128",
        "shared D_s: bf16[1][64x64] swizzle 128 over A_s, B_s\n"
        "named_barrier stages_read[1] threads 256",
    ).replace("wgmma.wait more, 0\n", "wgmma.wait more, 0\n    bar.sync stages_read[0]\n")
    assert lowered(reuse_stages, before, promote_prologue_smem_reuse=True) == full(after)


def test_refused_where_stages_are_filled_again() -> None:
    """The loop over tiles reads and stores."""
    lines = BEFORE.splitlines()
    first = next(i for i, line in enumerate(lines) if "zero:" in line)
    last = next(i for i, line in enumerate(lines) if "tma.store" in line) + 1
    text = "\n".join([*lines[:first], "for tile in 0 .. 2 {", *lines[first : last + 1], "}",
                      *lines[last + 1 :]])  # fmt: skip
    with pytest.raises(UnsupportedError) as error:
        lowered(reuse_stages, text, promote_prologue_smem_reuse=True)
    assert str(error.value) == (
        "promote_prologue_smem_reuse with a loop that reads operands and stores results is not "
        "supported; supported: one tile for each CTA, stored through shared memory"
    )
    with pytest.raises(UnsupportedError, match="stages of a persistent kernel hold the next tile"):
        kernel(reusing(cooperative(128, 64, stages=3)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("params", "result"),
    [
        (ONE, "bf16"),
        (cooperative(128, 128, stages=3, persistent=False, epilogue_stages=2), "f32"),
        (pipelined(cooperative(128, 128, stages=3, persistent=False)), "bf16"),
        (cooperative(128, 64, stages=3, persistent=False, cluster=(2, 1)), "bf16"),
        (split_k(ONE, 2), "bf16"),
    ],
    ids=["specialized", "fp32", "pipelined", "cluster", "split-K"],
)
def test_right_proved_and_without_spills(params: MatmulParams, result: str) -> None:
    plain, made = kernel(params, "bf16", result), kernel(reusing(params), "bf16", result)
    for seed in range(2):
        a, b = operands(ODD, "bf16", seed, integer=True)
        found = run(made, ODD, a, b, result, seed=seed, races=True).astype("f4")
        assert np.array_equal(found, exact(a, b))
    proof = proved(made.kernel, made.plan)
    assert "stages are read" in {o.name for o in proof.obligations}
    assert made.resources.clean
    stored = sum(b.stages * b.stage_bytes for b in made.kernel.shared if b.over)
    assert stored > 0 and plain.kernel.shared_bytes - made.kernel.shared_bytes >= stored


def test_a_stage_more_fits() -> None:
    """Nine stages of 24 KiB take 216 KiB, and 16 KiB to store would be too much."""
    nine = cooperative(128, 64, stages=9, persistent=False, epilogue_stages=1)
    made = kernel(reusing(nine))
    assert made.plan.operands.buffer.stages == 9
    assert kernel(nine).plan.operands.buffer.stages == 8


WIDE = cooperative(128, 128, stages=3, persistent=False, epilogue_stages=2)
"""Whose warpgroups store over rows of A that the other one reads."""


@cache
def text() -> str:
    return print_kernel(kernel(reusing(WIDE), "bf16", "f32").kernel)


def moved(line: str, behind: str) -> str:
    """The kernel with a statement behind another one."""
    lines = text().splitlines()
    (at,) = (i for i, x in enumerate(lines) if line in x)
    taken = lines.pop(at)
    (to,) = (i for i, x in enumerate(lines) if behind in x)
    return "\n".join([*lines[: to + 1], taken, *lines[to + 1 :]])


FAULTS = {
    "no meeting": lambda: text().replace("bar.sync stages_read[0]\n", "\n"),
    "of one warpgroup": lambda: (
        text()
        .replace("stages_read[1] id 3 threads 256", "stages_read[2] id 3 threads 128")
        .replace("bar.sync stages_read[0]", "bar.sync stages_read[group]")
    ),
    "in front of the last step": lambda: moved("bar.sync stages_read[0]", "zero: frag"),
    "not said": lambda: text().replace(" over T5, T6", ""),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_shows(name: str) -> None:
    """The machine names the race, or the bytes; the proof refutes a claim of the storage."""
    broken, made = parse_kernel(FAULTS[name]()), kernel(reusing(WIDE), "bf16", "f32")
    a, b = operands(ODD, "bf16", 0, integer=True)
    with pytest.raises(MachineError, match=r"nothing orders|of shared memory are of"):
        run(replace(made, kernel=broken), ODD, a, b, "f32", races=True)
    wrong = {o.name for o in prove(broken, admitted_by(made.plan)).open}
    assert wrong & {"stages are read", "storage is disjoint"}


def test_products_that_nobody_has_waited_for() -> None:
    """The proof alone: the machine faults the fragment first."""
    broken = parse_kernel(moved("total: frag<f32, 64x128> = wgmma.wait", "bar.sync stages_read"))
    refuted = [o for o in prove(broken).open if o.name == "stages are read"]
    assert [o.why.partition(" does ")[2] for o in refuted] == [
        "not wait for its last product in front of the meeting"
    ]


def test_the_text_is_read_back() -> None:
    found: Kernel = parse_kernel(text())
    assert found.buffer("T4_s").over == ("T5", "T6")
    assert print_kernel(found) == text()
    lost = parse_kernel(text().replace("over T5, T6", "over T5, T9, T4_s"))
    assert verify(lost) == [
        "T4_s lies over T9, which is no other shared buffer",
        "T4_s lies over T4_s, which is no other shared buffer",
    ]
