"""Rules of roles, each broken in a kernel that keeps them."""

from __future__ import annotations

import pytest

from lowering.kernel.text import parse_kernel, print_kernel
from lowering.kernel.verify import verify

KERNEL = """\
kernel good threads 288 cluster 1 grid 1 {
  named_barrier meet[2] id 1 threads 64
  roles {
    role compute warps 0 .. 4 as wg {
      setmaxnreg inc, 200
      x: frag<f32, 64x64> = frag.fill 1.0
      wgmma.fence
    }
    role others warps 4 .. 8 {
      setmaxnreg dec, 40
      roles {
        role left warps 4 .. 5 {
          bar.sync meet[0]
        }
        role right warps 5 .. 8 {
          if 0 < 1 {
            bar.sync meet[0]
          }
        }
      }
    }
    role last warps 8 .. 9 {
      cta.sync
    }
  }
}
"""


def test_roles_of_any_number_of_warps() -> None:
    kernel = parse_kernel(KERNEL)
    assert verify(kernel) == []
    assert print_kernel(kernel) == KERNEL


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("warps 5 .. 8", "warps 6 .. 8",
         "role right is warps 6 .. 8, the next without a role is 5"),
        ("warps 5 .. 8", "warps 4 .. 8",
         "role right is warps 4 .. 8, the next without a role is 5"),
        ("warps 5 .. 8", "warps 5 .. 7", "roles end with warp 7, not 8"),
        ("warps 8 .. 9", "warps 8 .. 10", "roles end with warp 10, not 9"),
        ("threads 288", "threads 320", "roles end with warp 9, not 10"),
        ("warps 5 .. 8", "warps 5 .. 8 as g",
         "role right has a group index, warps 5 .. 8 are no warpgroups"),
        ("wgmma.fence", "on %warp 1 { for i in 0 .. 2 { wgmma.fence } }",
         "wgmma.fence needs whole warpgroups, not one warp"),
        ("if 0 < 1 {", "if 0 < 1 and %warpgroup.warp + 1 == 2 {",
         "a branch on 0 < 1 and %warpgroup.warp + 1 == 2, which roles and `on` say"),
        ("cta.sync", "wgmma.fence",
         "wgmma.fence needs whole warpgroups, role last is warps 8 .. 9"),
        ("if 0 < 1 {", "if 0 < 1 { wgmma.commit",
         "wgmma.commit needs whole warpgroups, role right is warps 5 .. 8"),
        ("cta.sync", "if 0 < 1 { if 1 < 2 { setmaxnreg dec, 40 } }",
         "setmaxnreg needs whole warpgroups, role last is warps 8 .. 9"),
        ("cta.sync", "if 0 < 1 { roles { role deep warps 8 .. 9 { } } }",
         "roles stand in a loop or branch"),
        ("dec, 40", "dec, 20",
         "setmaxnreg takes multiples of 8 from 24 to 240, not 20, in: role others"),
        ("dec, 40", "dec, 152\n setmaxnreg inc, 216",
         "128 x 200 + 128 x 216 + 32 x 168 = 58624 registers, the CTA has 288 x 168 = 48384, "
         "in: setmaxnreg of the roles"),
        ("threads 288", "threads 288 registers 164",
         "a thread starts with multiples of 8 registers up to 168, not 164"),
        ("threads 288", "threads 288 registers 176",
         "a thread starts with multiples of 8 registers up to 168, not 176"),
        ("threads 288", "threads 288 registers 112",
         "128 x 200 + 128 x 40 + 32 x 112 = 34304 registers, the CTA has 288 x 112 = 32256, "
         "in: setmaxnreg of the roles"),
        ("named_barrier meet[2] id 1", "named_barrier meet[2] id 0",
         "id 0 belongs to the CTA, in: named_barrier meet"),
        ("named_barrier meet[2] id 1", "named_barrier meet[2] id 15",
         "no named barrier has id 16, in: named_barrier meet"),
        ("  roles {\n    role c", "  named_barrier more[1] id 2 threads 32 roles { role c",
         "id 2 belongs to meet, in: named_barrier more"),
    ],
)  # fmt: skip
def test_rules(old: str, new: str, problem: str) -> None:
    assert KERNEL.count(old) == 1
    assert verify(parse_kernel(KERNEL.replace(old, new))) == [problem]
