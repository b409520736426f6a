"""A kernel that is launched dependently touches no global memory before it has waited."""

from __future__ import annotations

import re

import numpy as np
import pytest

from lowering.ground.expr import evaluate
from lowering.kernel import nodes
from lowering.kernel.kernel import Kernel
from lowering.kernel.text import parse_kernel, print_kernel
from lowering.kernel.traits import Memory
from lowering.kernel.visit import walk
from lowering.machine import MachineError, run_kernel
from passes.options import LoweringOptions
from passes.pipeline import run_passes
from tests.lowering.machine.kernels import from_dtype, integers
from tests.lowering.nest.kernels import CLUSTER_2X1, SMALL, final, schedule, tile_level
from tests.proofs import proved
from tests.schedule.fusions import linear
from wsched.schedule import plan_matmul

WAIT = re.compile(r" *griddepcontrol\.wait\n")
TRIGGER = " *griddepcontrol\\.launch_dependents\n"
EARLY = "global memory before griddepcontrol.wait: earlier grids may still use it"
ENDED = "the CTA ends without griddepcontrol.wait: its grid may end before an earlier one"


def right(kernel: Kernel, ctas: int = 4) -> bool:
    """Whether two or three tiles come out right; of four persistent CTAs the last have none."""
    m, n, k = 136, 128, 136
    rng = np.random.default_rng(0)
    a, b = integers(rng, m, k), integers(rng, n, k)
    d = np.zeros((m, n), np.uint16)
    names = [t.name for t in kernel.tensor_maps]
    extents = {"M": m, "N": n, "K": k}
    grid = ctas if "sms" in str(kernel.grid) else evaluate(kernel.grid, extents)
    run_kernel(kernel, dict(zip(names, (a, b, d), strict=True)), extents, grid)
    wanted = from_dtype(a, "bf16") @ from_dtype(b, "bf16").T
    return bool(np.array_equal(from_dtype(d, "bf16"), wanted))


def without_wait(kernel: Kernel, which: int) -> Kernel:
    """The kernel without one of its waits, counted in program order, and what follows it."""
    text = print_kernel(kernel)
    found = list(re.finditer(WAIT.pattern + TRIGGER, text))[which]
    return parse_kernel(text[: found.start()] + text[found.end() :])


def with_early_operands(name: str) -> Kernel:
    """The kernel of a schedule whose operands the grid in front does not write."""
    operands = plan_matmul(linear(), schedule(name)).fusion.operands
    return run_passes(tile_level(name), LoweringOptions(early_operands=operands))


@pytest.mark.sampled
@pytest.mark.parametrize("name", SMALL)
def test_kernels_wait_in_time(name: str) -> None:
    kernel = final(name)
    assert kernel.dependent
    assert right(kernel)


@pytest.mark.sampled
@pytest.mark.parametrize("name", [*SMALL, CLUSTER_2X1])
def test_early_operands_are_loaded_before_the_wait(name: str) -> None:
    """Each role that loads them does before it waits, if it does; all else waits."""
    kernel = with_early_operands(name)
    roles = [s for r in walk(kernel.body) if isinstance(r, nodes.Roles) for s in r.roles]
    seen = [
        [s.OP for s in walk(role.body) if isinstance(s, nodes.TmaLoad | nodes.GridDepWait)]
        for role in roles
    ]
    assert {ops[0] for ops in seen if nodes.TmaLoad.OP in ops} == {nodes.TmaLoad.OP}
    assert any(nodes.GridDepWait.OP in ops for ops in seen)
    proved(kernel)
    if kernel.cluster == 1:
        assert right(kernel)


def test_only_operands_that_are_early_are() -> None:
    text = print_kernel(with_early_operands("cooperative"))
    late = parse_kernel(text.replace(" early\n", "\n", 1))
    with pytest.raises(MachineError) as error:
        right(late)
    assert (error.value.what, error.value.line[:8]) == (EARLY, "tma.load")


def test_the_next_grid_starts_behind_the_wait() -> None:
    """It takes what is in front of ours for ended."""
    text = print_kernel(final("cooperative"))
    swapped, pairs = re.subn(f"({WAIT.pattern})({TRIGGER})", r"\2\1", text)
    assert pairs == 2
    with pytest.raises(MachineError) as error:
        right(parse_kernel(swapped))
    assert error.value.what == (
        "griddepcontrol.launch_dependents before griddepcontrol.wait: the next grid may start "
        "while an earlier one writes"
    )


@pytest.mark.parametrize(
    ("which", "role", "statement"),
    [(0, "compute", "tma.store T5["), (1, "load", "tma.load T6[")],
)
def test_a_missing_wait_is_found(which: int, role: str, statement: str) -> None:
    with pytest.raises(MachineError) as error:
        right(without_wait(final("cooperative"), which))
    assert error.value.what == EARLY
    assert f"role {role}, group " in error.value.who
    assert error.value.line.startswith(statement)


def test_the_only_role_of_a_pipelined_kernel() -> None:
    with pytest.raises(MachineError) as error:
        right(without_wait(final("pipelined"), 0))
    assert (error.value.what, error.value.line[:8]) == (EARLY, "tma.load")


def test_a_kernel_launched_normally_need_not_wait() -> None:
    text = re.sub(WAIT.pattern + TRIGGER, "", print_kernel(final("cooperative")))
    assert right(parse_kernel(text.replace(" dependent grid", " grid")))


def test_a_cta_without_a_tile_waits_too() -> None:
    """Waits inside the tile loop guard every access, and yet a grid could end too early."""
    text, waits = re.subn(WAIT.pattern + TRIGGER, "", print_kernel(final("cooperative")))
    inside, loops = re.subn(r"(for tile2? in .*\{\n)", r"\1griddepcontrol.wait\n", text)
    assert waits == loops == 2
    kernel = parse_kernel(inside)
    assert right(kernel, ctas=2)
    with pytest.raises(MachineError) as error:
        right(kernel, ctas=4)
    assert error.value.what == ENDED
    assert error.value.who.startswith("CTA 2, warp ")


TOUCHES = {
    "frag.load_global": "a: frag<f32, 64x8> = frag.load_global x[0, 0]",
    "frag.store_global": "frag.store_global x[0, 0], zeros",
    "frag.red_global": "frag.red_global max, x[0, 0], zeros",
    "frag.store_reduced": "frag.store_reduced sum, x[0, 0], s[0, 0, 0], 1, 8",
    "frag.store_partial": "frag.store_partial parts[0], zeros",
    "frag.add_partial": "b: frag<f32, 64x8> = frag.add_partial zeros, parts[0]",
    "copy.tile": "copy.tile s[0, 0, 0], x[0, 0], 64, 8",
    "cp.async": "cp.async s[0, 0, 0], x[0, 0], 64, 8",
    "ld.global.scalar": "c: i32 = ld.global.scalar sizes[0]",
    "st.global.scalar": "elect { st.global.scalar sizes[0], 1 }",
    "atom": "elect { d: i32 = atom add, ready[0], 0 }",
    "counter.wait": "counter.wait ready[0], 0",
    "tma.load": "elect { tma.load s[0, 0, 0], X[0, 0], bar=full[0] }",
    "tma.store": "elect { tma.store X[0, 0], s[0, 0, 0] }",
    "fence.proxy.tensormap.acquire": "fence.proxy.tensormap.acquire D",
    "tensormap.replace.global_address": "elect { tensormap.replace.global_address D, x[0, 0] }",
    "tensormap.replace.global_dim": "elect { tensormap.replace.global_dim D, 0, 1 }",
}
"""A statement for each kind of a final kernel's that reads or writes global memory."""


def test_they_are_all() -> None:
    found = {
        each.OP for each in vars(nodes).values()
        if isinstance(each, type) and issubclass(each, nodes.Stmt) and each is not nodes.Stmt
        and each.TRAITS.touches & Memory.GLOBAL and not each.TRAITS.until
    }  # fmt: skip
    assert found == set(TOUCHES)


@pytest.mark.parametrize("op", TOUCHES)
def test_each_statement_waits(op: str) -> None:
    """The statement is refused in front of the wait, and not for that reason behind it."""
    text = """
    kernel k threads 128 cluster 1 dependent grid 1 {
      tensormap X: f32[64, 8] box 64x8
      tensormap D device: f32[64, 8] box 64x8
      global x: f32[64, 8] align 8
      global sizes: s32[4]
      counter ready[1]
      workspace parts: f32[1][64x8]
      mbarrier full[1] arrivals 1 at 0
      shared s: f32[1][64x8] at 128
      zeros: frag<f32, 64x8> = frag.fill 0.0
      HERE
    }
    """
    early, late = f"{TOUCHES[op]} griddepcontrol.wait", f"griddepcontrol.wait {TOUCHES[op]}"
    assert outcome(text.replace("HERE", early)) == EARLY
    assert outcome(text.replace("HERE", late)) != EARLY


def outcome(text: str) -> str:
    """What a run with tensors of zeros is refused for."""
    x = np.zeros((64, 8), np.float32)
    tensors = {"x": x, "X": x, "D": x, "sizes": np.zeros(4, np.int32)}
    try:
        run_kernel(parse_kernel(text), {**tensors, "ready": np.zeros(1, np.int32)}, {}, 1)
    except MachineError as error:
        return error.what
    return ""
