from __future__ import annotations

import re

import pytest

from lowering.ground.errors import InternalError
from lowering.kernel.text import print_kernel
from passes.allocate_mbarriers import allocate_mbarriers
from tests.epilogues import RESIDUAL
from tests.pairs import PAIRS
from tests.passes.texts import full, kernel, lowered, unchanged
from tests.schedule.matmul.test_tensor_memory import TILES
from wsched.front.known import import_fusion
from wsched.run.compiled import compile_fusion
from wsched.schedule.matmul.params import MatmulParams

HEAD = """
param n: i32
tensormap A: bf16[512, 512] box 64x64 swizzle 128
shared A_s: bf16[4][64x64] swizzle 128
"""
RING = "ring ring(A_s) stages 4\n"
BARRIERS = """
mbarrier ring_full[4] arrivals 1
mbarrier ring_empty[4] arrivals 8
"""
BEFORE = """
let top: i32 = n
roles {
  role compute warps 0 .. 8 as wg {
    for k in 0 .. top {
      wait_full ring, k
      release ring, k
    }
  }
  role load warps 8 .. 12 {
    on %warpgroup.warp 0 {
      for m in 0 .. top {
        elect {
          acquire ring, m
          tma.load A_s[stage(m, 4), 0, 0], A[m * 64, 0]
        }
      }
    }
  }
}
"""
AFTER = """
let top: i32 = n
on %warp 0 {
  elect {
    for ring_init in 0 .. 4 unroll {
      mbarrier.init ring_full[ring_init], 1
      mbarrier.init ring_empty[ring_init], 8
    }
    fence.mbarrier_init
  }
}
cta.sync
roles {
  role compute warps 0 .. 8 as wg {
    elect {
      for ring_first in 0 .. 4 unroll {
        mbarrier.arrive ring_empty[ring_first]
      }
    }
    for k in 0 .. top {
      mbarrier.wait ring_full[stage(k, 4)], parity(k, 4)
      elect {
        mbarrier.arrive ring_empty[stage(k, 4)]
      }
    }
  }
  role load warps 8 .. 12 {
    on %warpgroup.warp 0 {
      for m in 0 .. top {
        elect {
          mbarrier.wait ring_empty[stage(m, 4)], parity(m, 4)
          mbarrier.expect_tx ring_full[stage(m, 4)]
          tma.load A_s[stage(m, 4), 0, 0], A[m * 64, 0], bar=ring_full[stage(m, 4)]
        }
      }
    }
  }
}
cta.sync
on %warp 0 {
  elect {
    for ring_inval in 0 .. 4 unroll {
      mbarrier.inval ring_full[ring_inval]
      mbarrier.inval ring_empty[ring_inval]
    }
  }
}
"""


def test_every_step_gets_its_barriers() -> None:
    assert lowered(allocate_mbarriers, HEAD + RING + BEFORE) == full(HEAD + BARRIERS + AFTER)


def test_pingpong_steps_have_one_consuming_group() -> None:
    """Half the arrivals; group 0 alone says at the start that all stages are empty."""
    once = """
    elect {
      for ring_first in 0 .. 4 unroll {
        mbarrier.arrive ring_empty[ring_first]
      }
    }
"""
    inside = "".join("  " + line + "\n" for line in once.splitlines() if line)
    after = (HEAD + BARRIERS + AFTER).replace(once, f"\n    if wg == 0 {{\n{inside}    }}\n")
    after = after.replace("arrivals 8", "arrivals 4").replace("[ring_init], 8", "[ring_init], 4")
    before = HEAD + RING.replace("stages 4", "stages 4 teams 2") + in_turns(BEFORE)
    assert lowered(allocate_mbarriers, before) == full(in_turns(after))


def in_turns(text: str) -> str:
    """The text with steps of which each warpgroup of the reader takes every other one."""
    return re.sub(r"(wait_full ring, |release ring, |stage\(|parity\()k\b", r"\1k * 2 + wg", text)


def test_who_waits_for_each_step_is_in_no_team() -> None:
    """All its warpgroups arrive, also at first, whoever else takes turns with the ring."""
    before = HEAD + RING.replace("stages 4", "stages 4 teams 2") + BEFORE
    assert lowered(allocate_mbarriers, before) == full(HEAD + BARRIERS + AFTER)


def test_threads_fence_what_they_read_before_they_release_it() -> None:
    """A fence by all threads and a sync of the warp, then one thread arrives."""
    read = "      t: frag<bf16, 64x64> = ldmatrix A_s[stage(k, 4), 0, 0]\n"
    fence = "      fence.proxy.async\n      warp.sync\n"
    before = (HEAD + RING + BEFORE).replace("      release", read + "      release")
    after = HEAD + BARRIERS + AFTER
    arrive = "      elect {\n        mbarrier.arrive ring_empty[stage(k"
    after = after.replace(arrive, read + fence + arrive)
    assert lowered(allocate_mbarriers, before) == full(after)


def test_a_cluster_releases_to_all_that_fill_the_stage() -> None:
    """CTAs 0 and 1 share the tile: 8 arrivals of each; the waits and syncs are the cluster's."""
    before = HEAD + RING.replace("stages 4", "stages 4 shares 2x1") + BEFORE
    text = lowered(allocate_mbarriers, before)
    peer = "cta=%cluster.ctarank ^ 1, order=relaxed.cluster"
    lines = [line.strip() for line in text.splitlines()]
    assert [line for line in lines if line.startswith("mbarrier ")][1].endswith("arrivals 16")
    assert [line for line in lines if line.startswith("mbarrier.arrive")] == [
        "mbarrier.arrive ring_empty[ring_first]",
        f"mbarrier.arrive ring_empty[ring_first], {peer}",
        "mbarrier.arrive ring_empty[stage(k, 4)]",
        f"mbarrier.arrive ring_empty[stage(k, 4)], {peer}",
    ]
    assert "mbarrier.wait ring_empty[stage(m, 4)], parity(m, 4), order=relaxed.cluster" in lines
    assert "mbarrier.wait ring_full[stage(k, 4)], parity(k, 4)" in lines
    assert lines.count("cluster.sync") == 2
    assert "cta.sync" not in lines


@pytest.mark.parametrize("shares", ["", " shares 2x1"])
@pytest.mark.parametrize("copy", ["copy.tile", "cp.async"])
def test_threads_that_fill_a_stage_acquire_it(copy: str, shares: str) -> None:
    """What they write behind a relaxed wait may come in front of it; what TMA copies may not."""
    fill = f"""
    for m in 0 .. top {{
      acquire ring, m
      {copy} A_s[stage(m, 4), 0, 0], G[m * 64, 0], 64, 64
      commit ring, m
    }}
  }}
}}
"""
    head = HEAD + "global G: bf16[512, 512] align 16\n"
    before = BEFORE[: BEFORE.index("\n    on %warpgroup.warp")] + fill
    text = lowered(allocate_mbarriers, head + RING.replace(" 4", f" 4{shares}") + before)
    (wait,) = (line.strip() for line in text.splitlines() if "mbarrier.wait ring_empty" in line)
    order = ", order=acquire.cluster" if shares else ""
    assert wait == f"mbarrier.wait ring_empty[stage(m, 4)], parity(m, 4){order}"


def test_without_a_circular_buffer_nothing_changes() -> None:
    assert unchanged(allocate_mbarriers, "roles { role load warps 0 .. 4 { cta.sync } }")


def test_copies_into_other_buffers_are_left_alone() -> None:
    other = "shared B_s: bf16[1][64x64] swizzle 128\n"
    more = BEFORE.replace("acquire", "tma.load B_s[0, 0, 0], A[0, 0]\nacquire")
    assert kernel(HEAD + other + RING + more)
    assert "tma.load B_s[0, 0, 0], A[0, 0]\n" in lowered(
        allocate_mbarriers, HEAD + other + RING + more
    )


@pytest.mark.parametrize("params", [PAIRS["tma"], TILES["128x64"]], ids=["pairs", "alone"])
def test_what_products_of_pairs_read_is_full_where_they_are_issued(params: MatmulParams) -> None:
    """And not what threads read, nor what a CTA multiplies alone: of those each CTA waits for its
    own copies.
    """
    paired = params is PAIRS["tma"]
    lines = print_kernel(compile_fusion(import_fusion(RESIDUAL), params).kernel).splitlines()
    loads = {line.split("bar=")[1] for line in lines if "tma.load" in line}
    assert loads == {
        "ring_full[stage_k2]" + ", cta_group=2" * paired, "aux_full[stage_tile4]",
    }  # fmt: skip
    waits = [line.strip() for line in lines if "mbarrier.wait" in line]
    assert "mbarrier.wait aux_full[stage_tile2], parity_tile2" in waits
    wide = ", order=acquire.cluster" * paired
    assert f"mbarrier.wait ring_full[stage_k], parity_k{wide}" in waits


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("wait_full ring, k\n      release ring, k", "cta.sync", "nobody reads ring"),
        ("acquire ring, m\n          tma.load A_s[stage(m, 4), 0, 0], A[m * 64, 0]", "bulk.commit",
         "nobody fills ring"),
        ("elect {", "elect { acquire ring, m } elect {",
         "role load fills steps of ring in several ways"),
        ("tma.load A_s[stage(m, 4), 0, 0], A[m * 64, 0]",
         "for i in 0 .. 2 { tma.load A_s[stage(m, 4), 0, 0], A[m * 64, 0] }",
         "role load loads ring in a loop"),
        ("stages 4\n", "stages 4 teams 3\n", "8 warps of role compute are no 3 teams, of ring"),
    ],
)  # fmt: skip
def test_ends_that_make_no_sense(old: str, new: str, why: str) -> None:
    assert old in RING + BEFORE
    body = in_turns(BEFORE) if "teams" in new else BEFORE
    with pytest.raises(InternalError) as error:
        lowered(allocate_mbarriers, HEAD + (RING + body).replace(old, new))
    assert error.value.why == why


def test_two_circular_buffers_share_init_and_teardown() -> None:
    head = HEAD + "shared C_s: bf16[2][64x64] swizzle 128\n" + RING
    head += "ring aux(C_s) stages 2 teams 2\n"
    body = BEFORE.replace(
        "  role load",
        "  role other warps 12 .. 20 as g {\n    wait_full aux, g\n    release aux, g\n  }\n"
        "  role load",
    )
    load = "acquire aux, m tma.load C_s[stage(m, 2), 0, 0], A[m * 64, 0] "
    body = body.replace("acquire ring, m\n", load + "acquire ring, m\n")
    text = lowered(allocate_mbarriers, head + body, threads=640)
    assert text.count("fence.mbarrier_init") == 1
    assert text.count("cta.sync") == 2
    begin, roles = text.split("roles {")
    assert "mbarrier.init ring_empty[ring_init], 8" in begin
    assert "mbarrier.init aux_empty[aux_init], 4" in begin
    assert "if g == 0 {\n        elect {\n          for aux_first in 0 .. 2 unroll {" in roles
    assert "mbarrier.inval ring_full[ring_inval]" in roles
    assert "mbarrier.inval aux_empty[aux_inval]" in roles
