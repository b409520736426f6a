"""Steps that are not where the last loop ended: in front of a loop, behind it, rounds away."""

from __future__ import annotations

from lowering.kernel.nodes import For
from lowering.kernel.visit import expressions, walk
from passes.options import LoweringOptions
from passes.step_stages import step_stages
from tests.passes.evaluator import barriers, divides
from tests.passes.test_step_stages import BEFORE, HEAD
from tests.passes.texts import full, kernel, lowered


def test_one_stage_has_a_parity_alone() -> None:
    """Also where another ring has two stages; each is stepped through apart."""
    before = """
roles {
  role load warps 0 .. 4 {
    for t in 0 .. tiles {
      for k in 0 .. n {
        mbarrier.wait one[stage(t * n + k, 1)], parity(t * n + k, 1)
        mbarrier.arrive one[stage(t * n + k, 1)]
      }
    }
  }
}
"""
    after = """
roles {
  role load warps 0 .. 4 {
    for t in 0 .. tiles carry (parity_t: i32 = 0 -> parity_t_end) {
      for k in 0 .. n carry (parity_k: i32 = parity_t -> parity_k_end) {
        mbarrier.wait one[0], parity_k
        mbarrier.arrive one[0]
        yield parity_k ^ 1
      }
      yield parity_k_end
    }
  }
}
"""
    head = HEAD + "mbarrier one[1] arrivals 4\n"
    assert lowered(step_stages, head + before) == full(head + after)
    two = "mbarrier.wait two[stage(t * n + k, 2)], parity(t * n + k, 2)\n"
    head += "mbarrier two[2] arrivals 4\n"
    text = lowered(step_stages, head + before.replace("mbarrier.arrive", two + "mbarrier.arrive"))
    assert "mbarrier.wait one[0], parity_k\n" in text
    assert "mbarrier.wait two[stage_k], parity_k2\n" in text


def test_two_loops_over_the_same_steps() -> None:
    """The second one begins where the first one did, not where that has ended."""
    second = "for j in 0 .. n { mbarrier.wait full[stage(t * n + j, 4)], parity(t * n + j, 4) }"
    text = lowered(step_stages, HEAD + BEFORE.replace("for k in", f"{second}\nfor k in"))
    assert "for j in 0 .. n carry (stage_j: i32 = stage_t -> stage_j_end" in text
    assert "for k in 0 .. n carry (stage_k: i32 = stage_t -> stage_k_end" in text


def test_a_loop_whose_first_step_is_in_front_of_it() -> None:
    """Its stage is one behind; so are those of a branch, and a step of the loop before last."""
    head = """
roles {
  role compute warps 0 .. 4 as wg {
    for t in 0 .. tiles {
      mbarrier.wait full[stage(t * n, 4)], parity(t * n, 4)
      if 1 < n {
        for k in 1 .. n {
          mbarrier.wait full[stage(t * n + k, 4)], parity(t * n + k, 4)
          mbarrier.wait empty[stage(t * n + k - 9, 4)], parity(t * n + k - 9, 4)
        }
      }
    }
  }
}
"""
    before = kernel(HEAD + head)
    after = step_stages(before, LoweringOptions())
    for env in ({"tiles": t, "n": n, "first": 0} for t in (1, 3) for n in (1, 2, 7)):
        same = barriers(before, "compute", env, 0), barriers(after, "compute", env, 0)
        assert same[0] == same[1]
    inside = [s for s in walk(after.body) if isinstance(s, For) and s.var.name == "k"]
    assert not any(divides(e, 4) for s in walk(inside[0].body) for e in expressions(s))
