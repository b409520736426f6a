from __future__ import annotations

import pytest

from lowering.ground.errors import InternalError
from passes.synchronize_partials import synchronize_partials
from tests.passes.texts import full, lowered, unchanged

DECLARED = """
named_barrier order[2] id 1 threads 256
WORKSPACE
roles {
  role compute warps 0 .. 8 as wg {
    total: frag<f32, 64x256> = frag.fill 0.0
"""
BEFORE = """
    frag.store_partial parts[7], total
    publish parts[7]
    await parts[wg], 3
    added: frag<f32, 64x256> = frag.add_partial total, parts[wg]
  }
  role load warps 8 .. 12 {
  }
}
"""
AFTER = """
    frag.store_partial parts[7], total
    bar.sync parts_sync[wg]
    on %warpgroup.warp 0 {
      elect {
        was: i32 = atom add, ready[7], 1, order=release.gpu
      }
    }
    on %warpgroup.warp 0 {
      elect {
        counter.wait ready[wg], 3
        was2: i32 = atom exch, ready[wg], 0
      }
    }
    bar.sync parts_sync[wg]
    added: frag<f32, 64x256> = frag.add_partial total, parts[wg]
  }
  role load warps 8 .. 12 {
  }
}
"""
COUNTER, WORKSPACE = "counter ready[8]", "workspace parts: f32[8][64x256]"


def test_counters_and_barriers() -> None:
    """A barrier for each warpgroup of the role."""
    head = DECLARED.replace("WORKSPACE", f"{COUNTER}\n{WORKSPACE}")
    barriers = "named_barrier parts_sync[2] threads 128"
    after = head.replace(COUNTER, f"{barriers}\n{COUNTER}")
    assert lowered(synchronize_partials, head + BEFORE) == full(after + AFTER)


def test_without_partial_results_nothing_changes() -> None:
    head = DECLARED.replace("WORKSPACE", f"{COUNTER}\n{WORKSPACE}")
    assert unchanged(synchronize_partials, head + "}\n}")


def test_one_warpgroup_needs_no_number() -> None:
    head = DECLARED.replace("WORKSPACE", f"{COUNTER}\n{WORKSPACE}")
    roles = BEFORE.replace("8 .. 12", "4 .. 8")
    text = (head + roles).replace("0 .. 8 as wg", "0 .. 4").replace("[wg]", "[0]")
    after = lowered(synchronize_partials, text)
    assert "named_barrier parts_sync[1] threads 128\n" in after
    assert after.count("bar.sync parts_sync[0]\n") == 2


def test_a_workspace_without_counters() -> None:
    with pytest.raises(InternalError) as error:
        lowered(synchronize_partials, DECLARED.replace("WORKSPACE", WORKSPACE) + BEFORE)
    assert str(error.value) == (
        "synchronize_partials: workspace parts has no counters\n"
        "This is a defect of wsched, please report it with the dump."
    )
