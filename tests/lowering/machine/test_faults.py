"""Faults seeded into a right kernel: each must give a wrong number, a deadlock or a named error."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lowering.machine import DeadlockError, MachineError
from tests.lowering.machine.kernels import matmul_text, run_matmul

Edit = tuple[str, str]

# Faults that nothing reports where they happen; a wrong result or a deadlock follows.
SILENT: dict[str, Edit] = {
    "swizzle of a buffer": (
        "shared a_s: bf16[2][128x64] swizzle 128",
        "shared a_s: bf16[2][128x64] swizzle 64",
    ),
    "swizzle of a tensor map": (
        "b: bf16[N, K] box 64x64 swizzle 128",
        "b: bf16[N, K] box 64x64",
    ),
    "swizzle of the epilogue buffer": (
        "shared d_s: bf16[2][64x64] swizzle 128",
        "shared d_s: bf16[2][64x64]",
    ),
    "row of an operand": ("a_s[stage2, g * 64, 16]", "a_s[stage2, 0, 16]"),
    "column of an operand": ("b_s[stage2, 0, 32]", "b_s[stage2, 0, 16]"),
    "no fence before the store": ("        fence.proxy.async\n", ""),
    "fence by one thread": ("        fence.proxy.async\n", "        elect { fence.proxy.async }\n"),
    "no barrier between fence and store": (
        "fence.proxy.async\n        bar.sync store[g]\n",
        "fence.proxy.async\n",
    ),
    "no barrier between the store's wait and the next write": (
        "        bar.sync store[g]\n        stmatrix",
        "        stmatrix",
    ),
    "no wait before the buffer is written again": ("bulk.wait 0, read=true", ""),
    "no wait for the bytes": ("          mbarrier.wait full[stage2], parity2\n", ""),
    "no wait for the stage": ("            mbarrier.wait empty[stage], parity ^ 1\n", ""),
    "release before the wgmmas are done": (
        "          sum: frag<f32, 64x64> = wgmma.wait acc4, 0\n"
        "          elect { mbarrier.arrive empty[stage2] }\n",
        "          elect { mbarrier.arrive empty[stage2] }\n"
        "          sum: frag<f32, 64x64> = wgmma.wait acc4, 0\n",
    ),
}

# Faults that the machine names, and what it says; which warp says so depends on the seed.
NAMED: dict[str, tuple[Edit, str]] = {
    "bytes too few": (
        ("bytes=24576", "bytes=8192"),
        "bytes more than announced landed on full[",
    ),
    "arrivals at init": (
        ("mbarrier.init empty[s], 8", "mbarrier.init empty[s], 7"),
        "empty[0] awaits 8 arrivals, not 7",
    ),
    "arrival by every thread": (
        ("elect { mbarrier.arrive empty[stage2] }", "mbarrier.arrive empty[stage2]"),
        "32 arrivals at empty[0], which awaits 8 of its 8 in phase 0",
    ),
    "no fence after the init": (
        ("    fence.mbarrier_init\n", ""),
        "full[0] is given to a load before a fence.mbarrier_init after its init",
    ),
    "no sync after the init": (
        ("  cta.sync\n  roles", "  roles"),
        "full[0] is waited for but not initialized",
    ),
    "offset": (
        ("swizzle 128 at 32768", "swizzle 128 at 31744"),
        "bytes 31744 to 32768 of shared memory are of a_s and of b_s",
    ),
    "an mbarrier within a buffer": (
        ("arrivals 1 at 65536", "arrivals 1 at 65528"),
        "bytes 65528 to 65536 of shared memory are of d_s and of full",
    ),
    "unaligned offset": (
        ("swizzle 128 at 32768", "swizzle 128 at 65664"),
        "the rows of a wgmma operand start 128 bytes after a multiple of 1024",
    ),
    "no wgmma.fence": (
        ("          wgmma.fence\n", ""),
        "no wgmma.fence after the last access to fragment acc0",
    ),
    "wait for too few wgmma groups": (
        ("wgmma.wait acc4, 0", "wgmma.wait acc4, 1"),
        "fragment done may still be written by: sum: frag<f32, 64x64> = wgmma.wait acc4, 1",
    ),
    "no wgmma.commit": (
        ("          wgmma.commit\n", ""),
        "fragment done may still be written by: sum: frag<f32, 64x64> = wgmma.wait acc4, 0",
    ),
    "consumed accumulator": (
        ("wgmma acc1,", "wgmma acc0,"),
        "the registers of fragment acc0 were taken by: "
        "acc1: frag<f32, 64x64, async> = wgmma acc0, a_s[stage2, g * 64, 0], b_s[stage2, 0, 0]",
    ),
    "barrier inside elect": (
        ("fence.proxy.async\n        bar.sync store[g]", "elect { bar.sync store[g] }"),
        "bar.sync needs all threads of the warp and stands in elect",
    ),
    "store overwrites an mbarrier": (
        ("[64x64] swizzle 128 at 49152", "[64x64] swizzle 128 at 57344"),
        "bytes 65536 to 65552 of shared memory are of d_s and of full",
    ),
    "stage outside the buffer": (
        ("let last: pred = stage == 1", "let last: pred = stage == 2"),
        "empty[2] lies outside empty[2]",
    ),
    "no commit": (
        ("          bulk.commit\n", ""),
        "the warp ends without bulk.commit for: tma.store d[row, col + 0], d_s[g, 0, 0]",
    ),
    "no wait at the end": (
        ("{ bulk.wait 0 }", "{ }"),
        "the warp ends while a tma.store may still read shared memory",
    ),
    "registers beyond setmaxnreg": (
        ("setmaxnreg inc, 232", "setmaxnreg inc, 256"),
        "setmaxnreg takes multiples of 8 from 24 to 240",
    ),
    "division by zero": (
        ("tile % rows", "tile % (rows - rows)"),
        "tile % (rows - rows) divides 0 by 0",
    ),
    "warp without a role": (
        ("role compute warps 4 .. 12", "role compute warps 4 .. 8"),
        "runs no role, not exactly one role",
    ),
}


def outcome(edit: Edit, adversary: str, seed: int) -> bool:
    text = matmul_text()
    assert edit[0] in text
    return run_matmul(text.replace(*edit), 256, 200, 200, adversary=adversary, seed=seed)[0]


def caught(fault: Callable[[str, int], bool]) -> set[str]:
    """Results under several adversaries, by name."""
    found = set()
    for adversary, seed in [("eager", 0), ("lazy", 0), ("random", 1), ("random", 2)]:
        try:
            found.add("right" if fault(adversary, seed) else "wrong")
        except MachineError as error:
            found.add(type(error).__name__)
    return found


@pytest.mark.sampled(1)
@pytest.mark.parametrize("fault", SILENT)
def test_fault_shows(fault: str) -> None:
    """At least one of the adversaries must bring it to light."""
    assert caught(lambda *how: outcome(SILENT[fault], *how)) - {"right"}


@pytest.mark.parametrize("fault", NAMED)
def test_named_error(fault: str) -> None:
    edit, message = NAMED[fault]
    with pytest.raises(MachineError) as error:
        for seed in range(4):
            outcome(edit, "random", seed)
    assert message in error.value.what


@pytest.mark.parametrize("parity", ["parity ^ 1", "parity2"])
def test_wrong_parity_never_gives_a_right_result(parity: str) -> None:
    turned = "parity" if parity == "parity ^ 1" else "parity2 ^ 1"
    edit = (f"], {parity}\n", f"], {turned}\n")
    assert caught(lambda *how: outcome(edit, *how)) == {"DeadlockError"}


def deadlock(edit: Edit) -> tuple[str, ...]:
    """What the warps of CTA 0 wait for under the lazy adversary."""
    with pytest.raises(DeadlockError) as error:
        outcome(edit, "lazy", 0)
    return error.value.waits


IDLE = "CTA 0, warps 1..3: cta.sync: 96 of 384 threads (CTA 0, warps 1..3) (at: cta.sync)"


def test_deadlock_of_a_wrong_byte_count() -> None:
    assert deadlock(("bytes=24576", "bytes=24592")) == (
        IDLE,
        "CTA 0, role compute, group 0, warps 4..7: full[0] parity 0: phase 0 lacks 0 of 1 "
        "arrivals and 16 bytes (at: mbarrier.wait full[stage2], parity2)",
        "CTA 0, role compute, group 1, warps 8..11: full[0] parity 0: phase 0 lacks 0 of 1 "
        "arrivals and 16 bytes (at: mbarrier.wait full[stage2], parity2)",
        "CTA 0, role load, group 0, warp 0: empty[0] parity 0: phase 0 lacks 8 of 8 "
        "arrivals and 0 bytes (at: mbarrier.wait empty[stage], parity ^ 1)",
    )


def test_deadlock_of_an_arrival_that_never_comes() -> None:
    edit = ("elect { mbarrier.arrive empty[stage2] }", "")
    assert (
        "CTA 0, role load, group 0, warp 0: empty[0] parity 0: phase 0 lacks 8 of 8 "
        "arrivals and 0 bytes (at: mbarrier.wait empty[stage], parity ^ 1)"
    ) in deadlock(edit)


def test_deadlock_of_a_wrong_arrival_count() -> None:
    text = (
        matmul_text()
        .replace("arrivals 8 at", "arrivals 9 at")
        .replace("empty[s], 8", "empty[s], 9")
    )
    with pytest.raises(DeadlockError) as error:
        run_matmul(text, 256, 200, 200, adversary="lazy")
    assert (
        "CTA 0, role load, group 0, warp 0: empty[0] parity 0: phase 0 lacks 1 of 9 "
        "arrivals and 0 bytes (at: mbarrier.wait empty[stage], parity ^ 1)"
    ) in error.value.waits


def test_deadlock_of_a_register_pair_that_does_not_fit() -> None:
    waits = deadlock(("setmaxnreg inc, 232", "setmaxnreg inc, 240"))
    assert any(": 2304 registers: the pool has 256 (at: setmaxnreg inc, 240)" in w for w in waits)


def test_deadlock_of_a_named_barrier() -> None:
    waits = deadlock(("store[2] id 1 threads 128", "store[2] id 1 threads 160"))
    assert any(": store[0]: 128 of 160 threads (" in w for w in waits)


def test_text_of_a_deadlock() -> None:
    with pytest.raises(DeadlockError) as error:
        outcome(("elect { mbarrier.arrive empty[stage2] }", ""), "lazy", 0)
    lines = str(error.value).splitlines()
    assert lines[0] == "machine: deadlock: nothing in flight can wake"
    assert lines[1:-1] == ["  " + wait for wait in error.value.waits]
    assert lines[-1] == "This is a defect of wsched, please report it with the dump."


def test_text_of_a_fault() -> None:
    with pytest.raises(MachineError) as error:
        outcome(("mbarrier.init empty[s], 8", "mbarrier.init empty[s], 7"), "lazy", 0)
    assert str(error.value) == (
        "machine: CTA 0, warp 0: empty[0] awaits 8 arrivals, not 7\n"
        "This is a defect of wsched, please report it with the dump.\n"
        "  at: mbarrier.init empty[s], 7"
    )
