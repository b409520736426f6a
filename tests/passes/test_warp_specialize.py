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
    on %warpgroup.warp 0 {
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
        "ScheduleError[threads]: section compute groups 8: "
        "8 warpgroups and 1 that only issue copies are 1152 threads, limit 1024\n"
        "  legal here: at most 7 warpgroups that compute or load themselves"
    )


@pytest.mark.parametrize(
    ("text", "sections"),
    [
        ("cta.sync", "[]"),
        ("section load groups 1 { let m: i32 = 1 }", "['load']"),
        (AFTER, "[]"),
        (BEFORE + "section compute groups 1 { cta.sync }", "['compute', 'compute', 'load']"),
    ],
)
def test_nobody_has_threads_or_two_have_one_name(text: str, sections: str) -> None:
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
    assert error.value.wrote == "section compute groups 7, section convert groups 1"


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
    first, other = text.split("on %warpgroup.warp 1 {")
    assert "on %warpgroup.warp 0 {" in first and "for m in 0 .. n {" in first
    assert "for c in 0 .. n {\n          elect {\n" in other


def test_what_says_which_tile_is_next_is_for_the_whole_warp() -> None:
    """Its loop may end there, for all lanes; what takes tiles has a thread of its own."""
    queue = "shared word: s32[2][1]\nring queue(word) stages 2 remote\n"
    before = BEFORE.replace("    let row", "    t0: i32 = next.tile queue, m, n\n"
                            "    break n <= t0\n    let row").replace(
        "section compute", "section load groups 1 {\n  fetch.tiles queue, n\n}\nsection compute"
    )  # fmt: skip
    after = AFTER.replace(
        "        let row", "        t0: i32 = next.tile queue, m, n\n        break n <= t0\n"
        "        let row"
    ).replace(
        "  }\n}\n",
        "    on %warpgroup.warp 1 {\n      elect {\n        fetch.tiles queue, n\n"
        "      }\n    }\n  }\n}\n",
    )  # fmt: skip
    maps = "tensormap A: bf16[512, 64]\nshared A_s: bf16[1][64x64]\nshared B_s: bf16[1][64x64]\n"
    before, after = (text.replace(maps, maps + queue) for text in (before, after))
    assert lowered(warp_specialize, before, threads=256) == full(after, threads=384)


X = "global X: bf16[512, 64] align 16\n"
FILL = """
section fill groups 2 as half {
  let at: i32 = half * 64
  for i in 0 .. n {
    load.tile A_s[0, 0, 0], A[i, 0]
    load.tile B_s[0, 0, 0], A[at, 0]
    cp.async B_s[0, 0, 0], X[at, 0], 64, 64
  }
}
"""


def test_a_section_with_threads_is_a_role_that_issues_its_copies_by_one() -> None:
    """By one of each group, where the copy is the group's."""
    before = BEFORE.replace("section compute", FILL + "section compute")
    before = before.replace("let n", X + "let n")
    text = lowered(warp_specialize, before, threads=512)
    loads = """
  role fill warps 0 .. 8 as half {
    let at: i32 = half * 64
    for i in 0 .. n {
      on %warp 0 {
        elect {
          load.tile A_s[0, 0, 0], A[i, 0]
        }
      }
      on %warpgroup.warp 0 {
        elect {
          load.tile B_s[0, 0, 0], A[at, 0]
        }
      }
      cp.async B_s[0, 0, 0], X[at, 0], 64, 64
    }
  }
"""
    roles = AFTER.replace("8 .. 12", "16 .. 20").replace("0 .. 8", "8 .. 16")
    roles = roles.replace("let n", X + "let n").replace("roles {\n", "roles {" + loads)
    assert text == full(roles)


def test_what_a_copy_needs_is_bound_in_front_of_the_elected_thread() -> None:
    """A number from memory is a loop's bound for the whole warp."""
    body = "    m0: i32 = ld.global.scalar ends[m]\n    for j in 0 .. m0 {\n"
    before = BEFORE.replace("    let row", body + "    let row").replace(
        "A[row, 0]\n  }\n}\nsection c", "A[row, 0]\n  } }\n}\nsection c"
    )
    before = before.replace("let n", "global ends: s32[8] align 4\nlet n")
    text = lowered(warp_specialize, before, threads=256)
    lines = [line.strip() for line in text.split("role load")[1].splitlines()]
    assert lines[1:7] == [
        "on %warpgroup.warp 0 {", "for m in 0 .. n {", "m0: i32 = ld.global.scalar ends[m]",
        "for j in 0 .. m0 {", "let row: i32 = m * 64", "elect {",
    ]  # fmt: skip


def test_more_than_four_sections_that_copy() -> None:
    """Each warpgroup of theirs has four; it has a name of its own."""
    more = "".join(
        f"section load groups 1 {{ load.tile A_s[0, 0, 0], A[{i}, 0] }}\n" for i in range(4)
    )
    text = lowered(warp_specialize, BEFORE + more, threads=256)
    assert "role load warps 8 .. 12 {" in text and "role load_ warps 12 .. 16 {" in text
    assert text.count("on %warpgroup.warp 3 {") == 1


def test_nobody_only_copies() -> None:
    text = "section compute groups 1 { cta.sync }\nsection other groups 2 { cta.sync }"
    assert lowered(warp_specialize, text) == full(
        "roles {\n  role compute warps 0 .. 4 {\n    cta.sync\n  }\n"
        "  role other warps 4 .. 12 {\n    cta.sync\n  }\n}"
    )


IN_PLACE = """
tensormap A: bf16[512, 64]
shared A_s: bf16[1][64x64]
shared B_s: bf16[1][64x64]
ring ring(A_s) stages 1
ring other(B_s) stages 1
section compute groups 2 as wg {
  for t in 0 .. 8 {
    produce ring, t
    load.tile A_s[0, 0, 0], A[t * 64, 0]
    print compute, A_s, t, t
    consume ring, t
    produce other, t
    load.tile B_s[0, 0, 0], A[0, 0]
    st.shared B_s[0, 0, 0], zero
    consume other, t
  }
}
"""


def test_who_copies_alone_begins_the_step_and_prints() -> None:
    """Where threads store into the step as well, all of them begin it."""
    before = IN_PLACE.replace("  for t", "  zero: frag<f32, 64x64> = frag.fill 0.0\n  for t")
    assert lowered(warp_specialize, before, threads=256) == full(
        """
tensormap A: bf16[512, 64]
shared A_s: bf16[1][64x64]
shared B_s: bf16[1][64x64]
ring ring(A_s) stages 1
ring other(B_s) stages 1
roles {
  role compute warps 0 .. 8 as wg {
    zero: frag<f32, 64x64> = frag.fill 0.0
    for t in 0 .. 8 {
      on %warp 0 {
        elect {
          produce ring, t
          load.tile A_s[0, 0, 0], A[t * 64, 0]
          print compute, A_s, t, t
        }
      }
      consume ring, t
      produce other, t
      on %warp 0 {
        elect {
          load.tile B_s[0, 0, 0], A[0, 0]
        }
      }
      st.shared B_s[0, 0, 0], zero
      consume other, t
    }
  }
}
""",
        threads=256,
    )
