from __future__ import annotations

import pytest

from lowering.ground.errors import InternalError
from passes.wait_for_earlier_grids import wait_for_earlier_grids
from tests.passes.texts import full, lowered, unchanged

BEFORE = """
param n: i32
tensormap A: bf16[512, 512] box 64x64 swizzle 128
global bias: f32[1, 512]
shared A_s: bf16[1][64x64] swizzle 128
mbarrier full[1] arrivals 1
cta.sync
roles {
  role compute warps 0 .. 4 {
    setmaxnreg inc, 232
    for t in 0 .. n {
      row: frag<f32, 1x64> = frag.load_global bias[0, 0]
    }
    elect {
      tma.store A[0, 0], A_s[0, 0, 0]
    }
  }
  role idle warps 4 .. 8 {
    fence.proxy.async
  }
  role load warps 8 .. 12 {
    setmaxnreg dec, 40
    on %warpgroup.warp 0 {
      for m in 0 .. n {
        elect {
          tma.load A_s[0, 0, 0], A[0, 0], bar=full[0]
        }
      }
    }
  }
}
cta.sync
"""
WAIT = "griddepcontrol.wait\n      griddepcontrol.launch_dependents\n      "


def test_each_role_waits_in_front_of_global_memory() -> None:
    """Outside of loops and branches, so that a CTA without a tile waits as well."""
    after = full(BEFORE).replace("cluster 1 grid", "cluster 1 dependent grid")
    for first in ("for t in", "on %warpgroup.warp 0"):
        assert after.count(first) == 1
        after = after.replace(first, WAIT + first)
    assert lowered(wait_for_earlier_grids, BEFORE) == after


EARLY = """
param n: i32
tensormap A: bf16[512, 512] box 64x64 swizzle 128
tensormap R: bf16[512, 512] box 64x64 swizzle 128
tensormap D: bf16[512, 512] box 64x64 swizzle 128
shared A_s: bf16[1][64x64] swizzle 128
shared R_s: bf16[1][64x64] swizzle 128
mbarrier full[2] arrivals 1
roles {
  role compute warps 0 .. 4 {
    for t in 0 .. n {
      for k in 0 .. n {
        mbarrier.wait full[0], 0
      }
      for chunk in 0 .. 2 unroll {
        for m64 in 0 .. 2 unroll {
          fence.proxy.async
        }
        elect {
          tma.store D[0, 0], A_s[0, 0, 0]
        }
      }
    }
  }
  role load warps 4 .. 8 {
    for m in 0 .. n {
      elect {
        tma.load A_s[0, 0, 0], A[0, 0], bar=full[0]
      }
    }
  }
  role residual warps 8 .. 12 {
    for r in 0 .. n {
      elect {
        tma.load R_s[0, 0, 0], R[0, 0], bar=full[1]
      }
    }
  }
}
"""


def test_early_operands(golden: object) -> None:
    """Who loads them does not wait, who multiplies them does behind the main loop, for results and
    what else an epilogue reads, and a CTA without a tile behind its loop.
    """
    assert lowered(wait_for_earlier_grids, EARLY, early_operands=("A",)) == golden


def test_without_the_option_nothing_changes() -> None:
    assert unchanged(wait_for_earlier_grids, BEFORE, programmatic_dependent_launch=False)
    late = {"programmatic_dependent_launch": False, "early_operands": ("A",)}
    assert unchanged(wait_for_earlier_grids, EARLY, **late)


@pytest.mark.parametrize(
    "outside",
    ["tma.store A[0, 0], A_s[0, 0, 0]", "tma.load A_s[0, 0, 0], A[0, 0], bar=full[0]"],
)
def test_global_memory_outside_the_roles(outside: str) -> None:
    text = BEFORE.replace("cta.sync\nroles", f"elect {{ {outside} }}\nroles")
    with pytest.raises(InternalError) as error:
        lowered(wait_for_earlier_grids, text)
    assert str(error.value) == (
        "wait_for_earlier_grids: global memory is used outside the roles\n"
        "This is a defect of wsched, please report it with the dump."
    )


@pytest.mark.parametrize(
    "stmt", ["elect {\n      x: i32 = atom add, c[0], 1\n    }", "counter.wait c[0], 1"]
)
def test_counters_are_global_memory(stmt: str) -> None:
    text = f"""
counter c[1]
roles {{
  role all warps 0 .. 4 {{
    fence.proxy.async
    {stmt}
  }}
}}
"""
    found = lowered(wait_for_earlier_grids, text)
    assert "fence.proxy.async\n      griddepcontrol.wait\n" in found
