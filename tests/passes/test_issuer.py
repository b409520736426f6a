"""What one thread of a section with threads issues, and which steps of rings it has to itself."""

from __future__ import annotations

import pytest

from lowering.ground.errors import UnsupportedError
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import Roles
from lowering.kernel.ring_ends import ends_of
from lowering.kernel.text import parse_kernel, print_body
from passes.allocate_mbarriers import allocate_mbarriers
from passes.circular_buffer import circular_buffer
from passes.options import LoweringOptions
from passes.synchronize_tcgen05 import synchronize_tcgen05
from passes.warp_specialize import warp_specialize

OPTIONS = LoweringOptions()
MMA = "mma.tensor acc[0, 0, 0], A_s[0, 0, 0], A_s[0, 0, 0], 128, 64, 32, 0 < k"
LOAD = "x: frag<f32, 128x32, span 2, below 2> = ld.tensor acc[0, 0, 0]"
IN_PLACE = f"""
produce acc_ring, 0
for k in 0 .. M {{
  produce ring, k
  load.tile A_s[0, 0, 0], A[0, k]
  consume ring, k
  {MMA}
}}
consume acc_ring, 0
{LOAD}
"""


def kernel(section: str, groups: int = 1) -> Kernel:
    return parse_kernel(f"""\
kernel k threads 128 cluster 1 target sm_100a grid 1 {{
  param M: i32
  tensormap A: bf16[M, M]
  shared A_s: bf16[1][128x32]
  tensor acc: f32[1][128x64]
  ring ring(A_s) stages 1
  ring acc_ring(acc) stages 1
  section compute groups {groups} as group {{
    {section}
  }}
}}
""")


def body_of(made: Kernel) -> str:
    (roles,) = (s for s in made.body if isinstance(s, Roles))
    return print_body(roles.roles[0].body)


def lowered(section: str, groups: int = 1) -> str:
    return body_of(warp_specialize(kernel(section, groups), OPTIONS))


def test_who_multiplies_loads_waits_for_the_step_and_begins_it() -> None:
    """All warps begin a step of the sums, and wait for it."""
    assert lowered(IN_PLACE) == (
        """\
produce acc_ring, 0
for k in 0 .. M {
  on %warpgroup.warp 0 {
    elect {
      produce ring, k
      load.tile A_s[0, 0, 0], A[0, k]
      consume ring, k
      mma.tensor acc[0, 0, 0], A_s[0, 0, 0], A_s[0, 0, 0], 128, 64, 32, 0 < k
    }
  }
}
consume acc_ring, 0
x: frag<f32, 128x32, span 2, below 2> = ld.tensor acc[0, 0, 0]
"""
    )


def test_one_warp_fills_what_all_begin_and_reads_what_it_waits_for() -> None:
    made = circular_buffer(warp_specialize(kernel(IN_PLACE), OPTIONS), OPTIONS)
    operands, sums = (ends_of(made, ring) for ring in made.rings)
    assert [(f.warps, f.issuers) for f in sums.fills] == [({0, 1, 2, 3}, {0})]
    assert (sums.issuers, sums.full, sums.empty) == ((0,), 1, 4)
    assert (operands.issuers, operands.full, operands.empty) == ((), 1, 1)
    assert operands.issues("compute") and not sums.issues("compute")


def test_of_several_warpgroups_the_first_issues() -> None:
    assert "on %warp 0 {" in lowered(IN_PLACE, groups=2)


@pytest.mark.parametrize(
    "read",
    ["y: frag<bf16, 128x32> = ld.shared A_s[0, 0, 0]", f"if 0 < M {{\n {MMA}\n}}"],
    ids=["threads", "a branch"],
)
def test_a_step_that_is_not_for_products_beside_it_alone(read: str) -> None:
    """All wait for it, so that what reads it is in the step."""
    found = lowered(f"for k in 0 .. M {{\n consume ring, k\n {MMA}\n {read}\n}}")
    assert found.startswith("for k in 0 .. M {\n  consume ring, k\n  on %warpgroup.warp 0 {")


def test_a_step_that_threads_read_beside_products() -> None:
    """What a commit tells of are products alone."""
    section = IN_PLACE.replace(MMA, f"{MMA}\n  y: frag<bf16, 128x32> = ld.shared A_s[0, 0, 0]")
    made = synchronize_tcgen05(
        circular_buffer(warp_specialize(kernel(section), OPTIONS), OPTIONS), OPTIONS
    )
    with pytest.raises(UnsupportedError) as error:
        allocate_mbarriers(made, OPTIONS)
    assert str(error.value).startswith(
        "stages of ring that threads of compute read beside tcgen05 is not supported; supported: "
        "stages that products alone read"
    )
