"""A kernel that is launched dependently touches no global memory before it has waited."""

from __future__ import annotations

import re

import numpy as np
import pytest

from lowering.ground.expr import evaluate
from lowering.kernel.kernel import Kernel
from lowering.kernel.text import parse_kernel, print_kernel
from lowering.machine import MachineError, run_kernel
from tests.lowering.machine.kernels import from_dtype, integers
from tests.lowering.nest.kernels import SMALL, final

WAIT = re.compile(r" *griddepcontrol\.wait\n")
EARLY = "global memory before griddepcontrol.wait: earlier grids may still use it"


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
    """The kernel without one of its waits, counted in program order."""
    text = print_kernel(kernel)
    found = list(WAIT.finditer(text))[which]
    return parse_kernel(text[: found.start()] + text[found.end() :])


@pytest.mark.sampled
@pytest.mark.parametrize("name", SMALL)
def test_kernels_wait_in_time(name: str) -> None:
    kernel = final(name)
    assert kernel.dependent
    assert right(kernel)


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
    text = WAIT.sub("", print_kernel(final("cooperative")))
    assert right(parse_kernel(text.replace(" dependent grid", " grid")))


def test_a_cta_without_a_tile_waits_too() -> None:
    """Waits inside the tile loop guard every access, and yet a grid could end too early."""
    text, waits = WAIT.subn("", print_kernel(final("cooperative")))
    inside, loops = re.subn(r"(for tile2? in .*\{\n)", r"\1griddepcontrol.wait\n", text)
    assert waits == loops == 2
    kernel = parse_kernel(inside)
    assert right(kernel, ctas=2)
    with pytest.raises(MachineError) as error:
        right(kernel, ctas=4)
    assert error.value.what == (
        "the CTA ends without griddepcontrol.wait: its grid may end before an earlier one"
    )
    assert error.value.who.startswith("CTA 2, warp ")


def test_loads_by_threads_wait_too() -> None:
    kernel = parse_kernel("""
    kernel k threads 128 cluster 1 dependent grid 1 {
      global x: f32[1, 64]
      a: frag<f32, 1x64> = frag.load_global x[0, 0]
      griddepcontrol.wait
    }
    """)
    with pytest.raises(MachineError) as error:
        run_kernel(kernel, {"x": np.zeros((1, 64), np.float32)}, {}, 1)
    assert error.value.what == EARLY
