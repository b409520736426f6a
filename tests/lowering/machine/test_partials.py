"""Partial results on the machine: the protocol that hands one on, and each part left out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lowering.kernel.kernel import Kernel
from lowering.kernel.text import parse_kernel
from lowering.kernel.verify import verify
from lowering.machine import DeadlockError, MachineError, run_kernel
from lowering.machine.adversary import Adversary

GIVE = """
    frag.store_partial parts[0], given
    bar.sync meet[0]
    on %warpgroup.warp 0 { elect { was: i32 = atom add, ready[0], 1, order=release.gpu } }
"""
TAKE = """
    on %warpgroup.warp 0 { elect {
      counter.wait ready[0], 1
      lowered: i32 = atom exch, ready[0], 0
    } }
    bar.sync meet[0]
    sum: frag<f32, 64x8> = frag.add_partial mine, parts[0]
    frag.store_global d[0, 0], sum
"""


def handing_on(old: str = "", new: str = "", giver: int = 0) -> Kernel:
    """CTA ``giver`` hands a fragment of twos to the other, which adds three; ``old`` changed."""
    body = (
        f"if %ctaid.x == {giver} {{ given: frag<f32, 64x8> = frag.fill 2.0 {GIVE} }} "
        f"else {{ mine: frag<f32, 64x8> = frag.fill 3.0 {TAKE} }}"
    )
    assert old in body
    kernel = parse_kernel(
        f"""kernel k threads 128 cluster 1 grid 2 {{
          global d: f32[64, 8] align 8
          named_barrier meet[1] id 1 threads 128
          counter ready[2]
          workspace parts: f32[2][64x8]
          {body.replace(old, new)}
        }}"""
    )
    assert verify(kernel) == []
    return kernel


def run(kernel: Kernel, adversary: Adversary = "eager", **options: Any) -> np.ndarray:
    d = np.zeros((64, 8), np.float32)
    run_kernel(kernel, {"d": d}, {}, 2, adversary=adversary, **options)
    return d


@pytest.mark.parametrize("adversary", ["eager", "lazy", "random", "fair"])
@pytest.mark.parametrize("giver", [0, 1])
def test_the_sum_arrives(adversary: Adversary, giver: int) -> None:
    for seed in range(5):
        assert (run(handing_on(giver=giver), adversary, seed=seed) == 5).all()


UNORDERED = "parts[0] is read, but nothing orders the load behind the store"
SUM = "sum: frag<f32, 64x8> = frag.add_partial mine, parts[0]"


@pytest.mark.parametrize(
    ("old", "new", "warp"),
    [
        ("counter.wait ready[0], 1", "", 3),
        ("bar.sync meet[0]\n    sum", "sum", 0),
        ("bar.sync meet[0]\n    on", "on", 3),
        (", order=release.gpu", "", 3),
    ],
    ids=["wait", "barrier behind it", "barrier in front of the release", "release"],
)
def test_what_is_left_out(old: str, new: str, warp: int) -> None:
    """CTA 0 comes first and stores before CTA 1 begins: the number would be right by chance.

    Behind ``counter.wait`` by one thread the other 31 of warp 0 know of nothing without a barrier.
    """
    with pytest.raises(MachineError) as error:
        run(handing_on(old, new), resident=1)
    who = f"CTA 1, warp {warp}"
    assert (error.value.who, error.value.what, error.value.line) == (who, UNORDERED, SUM)


def test_a_slot_that_nobody_stored() -> None:
    with pytest.raises(MachineError) as error:
        run(handing_on("mine, parts[0]", "mine, parts[1]"), resident=1)
    assert str(error.value) == (
        "machine: CTA 1, warp 3: parts[1] is read, but nobody has stored there\n"
        "This is a defect of wsched, please report it with the dump.\n"
        f"  at: {SUM.replace('parts[0]', 'parts[1]')}"
    )


@pytest.mark.parametrize(
    ("old", "who", "line"),
    [
        (
            "frag.store_partial parts[0], given",
            "CTA 0, warp 0",
            "frag.store_partial parts[2], given",
        ),
        (SUM, "CTA 1, warp 3", SUM.replace("parts[0]", "parts[2]")),
    ],
)
def test_out_of_bounds(old: str, who: str, line: str) -> None:
    with pytest.raises(MachineError) as error:
        run(handing_on(old, line), resident=1)
    why = "parts[2] lies outside parts[2]"
    assert (error.value.who, error.value.what, error.value.line) == (who, why, line)


def test_a_cta_that_waits_for_one_that_has_not_started() -> None:
    """The GPU starts CTAs in the order of their numbers, and maybe one at a time."""
    kernel = handing_on(giver=1)
    assert (run(kernel, resident=2) == 5).all()
    with pytest.raises(DeadlockError) as error:
        run(kernel, resident=1)
    assert error.value.waits == (
        "CTA 0, warps 1..3: meet[0]: 96 of 128 threads (CTA 0, warps 1..3) (at: bar.sync meet[0])",
        "CTA 0, warp 0: ready[0] is 0, not yet 1 (at: counter.wait ready[0], 1)",
    )


def test_a_slot_that_is_written_again() -> None:
    """Who knows of the first store alone may not read the second."""
    release = "order=release.gpu } }\n"
    again = f"{release}    frag.store_partial parts[0], given\n"
    with pytest.raises(MachineError) as error:
        run(handing_on(release, again), resident=1)
    assert (error.value.what, error.value.line) == (UNORDERED, SUM)
