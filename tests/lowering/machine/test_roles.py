"""Roles of any number of warps, roles in roles, and registers of a warpgroup."""

from __future__ import annotations

import numpy as np
import pytest

from lowering.kernel.text import parse_kernel
from lowering.kernel.verify import verify
from lowering.machine import MachineError, run_kernel

KERNEL = """
kernel k threads 288 cluster 1 grid 1 {
  global out: f32[64, 8]
  named_barrier meet[1] id 1 threads 64
  roles {
    role compute warps 0 .. 4 as wg {
      setmaxnreg inc, 200
      x: frag<f32, 64x8> = frag.fill 3.0
      frag.store_global out[wg, 0], x
    }
    role others warps 4 .. 8 {
      setmaxnreg dec, 40
      roles {
        role left warps 4 .. 5 { bar.sync meet[0] }
        role right warps 5 .. 8 { on %warp 6 { bar.sync meet[0] } }
      }
    }
    role last warps 8 .. 9 { }
  }
  cta.sync
}
"""


def execute(text: str) -> np.ndarray:
    out = np.zeros((64, 8), np.float32)
    run_kernel(parse_kernel(text), {"out": out}, {}, 1)
    return out


def test_each_warp_runs_the_innermost_role_that_has_it() -> None:
    assert verify(parse_kernel(KERNEL)) == []
    assert (execute(KERNEL) == 3).all()


@pytest.mark.parametrize(
    ("place", "where"),
    [
        ("left warps 4 .. 5 {", "CTA 0, role left, group 0, warp 4"),
        ("last warps 8 .. 9 {", "CTA 0, role last, group 0, warp 8"),
    ],
)
def test_a_fault_names_the_innermost_role(place: str, where: str) -> None:
    with pytest.raises(MachineError, match=where):
        execute(KERNEL.replace(place, f"{place} bar.sync meet[1]"))


def test_behind_its_inner_role_a_warp_is_in_the_outer_one() -> None:
    behind = "      }\n      bar.sync meet[1]\n    }\n    role last"
    with pytest.raises(MachineError, match=r"CTA 0, role others, group 0, warp [4-7]"):
        execute(KERNEL.replace("      }\n    }\n    role last", behind))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("setmaxnreg dec, 40", "if %warp < 6 { setmaxnreg dec, 40 } else { setmaxnreg dec, 40 }",
         "of the warpgroup executes another setmaxnreg"),
        ("setmaxnreg dec, 40", "setmaxnreg dec, 40 if %warp != 6 { setmaxnreg dec, 32 }",
         "warp 6 has ended without a setmaxnreg of its warpgroup"),
    ],
)  # fmt: skip
def test_the_warps_of_a_warpgroup_change_registers_together(
    old: str, new: str, message: str
) -> None:
    with pytest.raises(MachineError, match=message):
        execute(KERNEL.replace(old, new))
