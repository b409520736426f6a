from __future__ import annotations

import pytest

from lowering.ground.errors import InternalError, ScheduleError
from passes.warp_specialize import warp_specialize
from tests.passes.texts import full, lowered, unchanged

BEFORE = """
tensormap A: bf16[512, 64]
shared A_s: bf16[1][64x64]
shared B_s: bf16[1][64x64]
let n: i32 = 8
section load groups 1 {
  for m in 0 .. n {
    let row: i32 = m * 64
    load.tile A_s[0, 0, 0], A[row, 0]
    load.tile B_s[0, 0, 0], A[row, 0]
  }
}
section compute groups 2 as wg {
  for t in wg .. n {
    fence.proxy.async
  }
}
"""
AFTER = """
tensormap A: bf16[512, 64]
shared A_s: bf16[1][64x64]
shared B_s: bf16[1][64x64]
let n: i32 = 8
roles {
  role compute warps 0 .. 8 as wg {
    for t in wg .. n {
      fence.proxy.async
    }
  }
  role load warps 8 .. 12 {
    if %warpgroup.warp == 0 {
      for m in 0 .. n {
        let row: i32 = m * 64
        elect {
          load.tile A_s[0, 0, 0], A[row, 0]
          load.tile B_s[0, 0, 0], A[row, 0]
        }
      }
    }
  }
}
"""


def test_sections_become_roles() -> None:
    """The CTA grows by the load warpgroup; bindings stay outside the elected thread."""
    assert lowered(warp_specialize, BEFORE, threads=256) == full(AFTER, threads=384)


def test_a_kernel_that_loads_ahead_of_itself_is_left_alone() -> None:
    """``interleave_loads`` makes one role of it."""
    buffer = "ring ring(A_s) stages 4 in_flight 1 prefetch 2"
    assert unchanged(warp_specialize, BEFORE.replace("let n", f"{buffer}\nlet n"))


def test_too_many_threads() -> None:
    with pytest.raises(ScheduleError) as error:
        lowered(warp_specialize, BEFORE.replace("groups 2", "groups 8"), threads=1024)
    assert str(error.value) == (
        "ScheduleError[threads]: parallelize(TIDy) over 8 compute warpgroups: "
        "with the load warpgroup the CTA has 1152 threads, limit 1024\n"
        "  legal here: at most 7 compute warpgroups"
    )


@pytest.mark.parametrize(
    ("text", "sections"),
    [
        ("cta.sync", "[]"),
        ("section load groups 1 { cta.sync }", "['load']"),
        (AFTER, "[]"),
        (BEFORE + "section compute groups 1 { }", "['compute', 'compute', 'load']"),
        (BEFORE.partition("section")[0] + "section compute groups 1 { }", "['compute']"),
        (BEFORE + 4 * "section load groups 1 { }", str(["compute", *["load"] * 5])),
    ],
)
def test_sections_that_are_no_roles(text: str, sections: str) -> None:
    with pytest.raises(InternalError) as error:
        lowered(warp_specialize, text)
    assert str(error.value) == (
        f"warp_specialize: sections are {sections}\n"
        "This is a defect of wsched, please report it with the dump."
    )


def test_sections_between_load_and_compute() -> None:
    """Each has warpgroups of its own, with registers and an index of its own, in their order."""
    second = "section convert groups 1 as cg registers 96 {\n  cta.sync\n}\n"
    text = lowered(warp_specialize, BEFORE + second, threads=384)
    heads = [line.strip() for line in text.splitlines() if line.strip().startswith("role ")]
    assert heads == [
        "role compute warps 0 .. 8 as wg {",
        "role convert warps 8 .. 12 as cg registers 96 {",
        "role load warps 12 .. 16 {",
    ]
    with pytest.raises(ScheduleError) as error:
        lowered(warp_specialize, BEFORE.replace("groups 2", "groups 7") + second)
    assert error.value.wrote == "parallelize(TIDy) over 8 compute warpgroups"


def test_each_load_section_has_a_warp() -> None:
    second = """
section load groups 1 {
  for c in 0 .. n {
    load.tile B_s[0, 0, 0], A[c * 64, 0]
  }
}
"""
    text = lowered(warp_specialize, BEFORE + second, threads=256)
    assert text.count("role load warps 8 .. 12 {") == 1
    first, other = text.split("if %warpgroup.warp == 1 {")
    assert "if %warpgroup.warp == 0 {" in first and "for m in 0 .. n {" in first
    assert "for c in 0 .. n {\n          elect {\n" in other


def test_what_says_which_tile_is_next_is_for_the_whole_warp() -> None:
    """Its loop may end there, for all lanes; what takes tiles has a thread of its own."""
    queue = "shared word: s32[2][1]\nring queue(word) stages 2 remote\n"
    before = BEFORE.replace("    let row", "    t0: i32 = next.tile queue, m\n"
                            "    break n <= t0\n    let row").replace(
        "section compute", "section load groups 1 {\n  fetch.tiles queue, n\n}\nsection compute"
    )  # fmt: skip
    after = AFTER.replace(
        "        let row", "        t0: i32 = next.tile queue, m\n        break n <= t0\n"
        "        let row"
    ).replace(
        "  }\n}\n",
        "    if %warpgroup.warp == 1 {\n      elect {\n        fetch.tiles queue, n\n"
        "      }\n    }\n  }\n}\n",
    )  # fmt: skip
    maps = "tensormap A: bf16[512, 64]\nshared A_s: bf16[1][64x64]\nshared B_s: bf16[1][64x64]\n"
    before, after = (text.replace(maps, maps + queue) for text in (before, after))
    assert lowered(warp_specialize, before, threads=256) == full(after, threads=384)
