from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowering.ground.errors import InternalError
from lowering.ground.expr import evaluate
from lowering.kernel.nodes import For, MBarrierWait, Roles
from lowering.kernel.text import print_kernel
from lowering.kernel.visit import expressions, walk
from passes.options import LoweringOptions
from passes.step_stages import step_stages
from tests.lowering.ground.expressions import budget
from tests.passes.evaluator import barriers, divides, execute_role
from tests.passes.texts import full, kernel, lowered, unchanged

HEAD = """
param tiles: i32
param n: i32
param first: i32
mbarrier full[8] arrivals 1
mbarrier empty[8] arrivals 4
"""
BEFORE = """
roles {
  role load warps 0 .. 4 {
    for t in 0 .. tiles {
      for k in 0 .. n {
        mbarrier.wait full[stage(t * n + k, 4)], parity(t * n + k, 4)
      }
    }
  }
}
"""
INTERVALS = """
roles {
  role load warps 0 .. 8 as g {
    let turn: i32 = g // 2
    for t in 0 .. tiles carry (begin: i32 = turn * n -> behind) {
      for k in begin .. begin + n {
        mbarrier.wait full[stage(k, 4)], parity(k, 4)
      }
      yield begin + n * 2
    }
  }
}
"""
AFTER = """
roles {
  role load warps 0 .. 4 {
    for t in 0 .. tiles carry (stage_t: i32 = 0 -> stage_t_end, parity_t: i32 = 0 -> parity_t_end) {
      for k in 0 .. n carry (K_STAGE, K_PARITY) {
        mbarrier.wait full[stage_k], parity_k
        let next: i32 = stage_k + 1
        let wraps: pred = 4 <= next
        yield select(wraps, next - 4, next), parity_k ^ 0 ^ select(wraps, 1, 0)
      }
      yield stage_k_end, parity_k_end
    }
  }
}
"""


def test_stage_and_parity_are_carried() -> None:
    after = AFTER.replace("K_STAGE", "stage_k: i32 = stage_t -> stage_k_end")
    after = after.replace("K_PARITY", "parity_k: i32 = parity_t -> parity_k_end")
    assert lowered(step_stages, HEAD + BEFORE) == full(HEAD + after.replace(" ^ 0", ""))


def test_a_skip_is_computed_before_the_loops() -> None:
    """Ping-pong: the group starts at its own steps and leaves out the other group's."""
    pingpong = BEFORE.replace("t * n", "(t * 2 + g) * n").replace("4 {", "8 as g {", 1)
    lines = [line.strip() for line in lowered(step_stages, HEAD + pingpong).splitlines()]
    at = lines.index("role load warps 0 .. 8 as g {")
    assert lines[at + 1 : at + 5] == [
        "let first_stage: i32 = g * n % 4",
        "let first_parity: i32 = g * n // 4 % 2",
        "let skip_stage: i32 = n % 4",
        "let skip_parity: i32 = n // 4 % 2",
    ]
    assert "let next2: i32 = stage_k_end + skip_stage" in lines
    assert (
        "yield select(wraps2, next2 - 4, next2), "
        "parity_k_end ^ skip_parity ^ select(wraps2, 1, 0)" in lines
    )


def test_where_a_loop_begins_is_resolved_before_the_loops() -> None:
    """A loop that carries its first step begins at one that a binding of the role says."""
    text = lowered(step_stages, HEAD + INTERVALS)
    lines = [line.strip() for line in text.splitlines()]
    at = lines.index("role load warps 0 .. 8 as g {")
    assert lines[at + 1 : at + 3] == [
        "let first_stage: i32 = g // 2 * n % 4",
        "let first_parity: i32 = g // 2 * n // 4 % 2",
    ]


def test_without_mbarriers_nothing_changes() -> None:
    body = "roles { role load warps 0 .. 4 { for t in 0 .. 9 { bulk(t) } } }"
    assert unchanged(step_stages, HEAD + body.replace("bulk(t)", "let a: i32 = t % 4"))


def role(name: str, warps: str, stages: int, late: int, bound: str, m: str) -> str:
    """A tile and a k loop that wait for step ``m`` and arrive ``late`` steps behind.

    In ``m`` and here, T, K and G stand for the role's tile, k and group indices.
    """
    drain = "".join(
        f"if {i} < {bound} {{ mbarrier.arrive "
        f"empty[stage({m.replace('K', f'({bound} - {i + 1})')}, {stages})] }}\n"
        for i in reversed(range(late))
    )
    text = f"""
  role {name} warps {warps} as G {{
    for T in 0 .. tiles {{
      for K in 0 .. {bound} {{
        mbarrier.wait full[stage({m}, {stages})], parity({m}, {stages})
        if {late - 1} < K {{ mbarrier.arrive empty[stage({m} - {late}, {stages})] }}
        mbarrier.arrive full[stage({m} + 1, {stages})]
      }}
      {drain}
    }}
  }}
"""
    for letter in "TKG":
        text = text.replace(letter, f"{letter.lower()}_{name}")
    return text


@st.composite
def cases(draw: st.DrawFn) -> tuple[str, dict[str, int], int]:
    """A kernel of up to three consuming groups and a producer, its parameters and its stages."""
    stages = draw(st.integers(2, 7))
    groups = draw(st.integers(1, 3))
    late = draw(st.integers(0, stages - 1))
    start = draw(st.sampled_from(("", "first + ")))
    bound = draw(st.sampled_from(("n", "3")))
    compute = f"{start}(T * {groups} + G) * {bound} + K"
    load = f"{start}T * {bound} + K"
    text = HEAD + "roles {\n"
    text += role("compute", "0 .. 12", stages, late, bound, compute)
    text += role("load", "12 .. 16", stages, 0, bound, load) + "}\n"
    env = {n: draw(st.integers(0, 6)) for n in ("tiles", "n", "first")}
    return text, env, stages


@budget(60)
@given(cases())
def test_sequence_equals_direct_evaluation(case: tuple[str, dict[str, int], int]) -> None:
    """Stage m % S and parity m // S % 2, for every step of every group."""
    text, env, stages = case
    before = kernel(text, threads=512)
    after = step_stages(before, LoweringOptions())
    for name, groups in (("compute", 3), ("load", 1)):
        for group in range(groups):
            assert barriers(after, name, env, group) == barriers(before, name, env, group)
    loops = [s for s in walk(after.body) if isinstance(s, For)]
    inside = [e for loop in loops for s in walk(loop.body) for e in expressions(s)]
    assert not any(divides(e, stages) for e in inside)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("for t in 0 .. tiles", "for t in 0 .. tiles step 2", "loop t has step 2"),
        ("t * n + k", "t * t + k",
         "loop t moves by 1 + t * 2 - n steps, not always the same number"),
    ],
)  # fmt: skip
def test_steps_that_are_not_linear(old: str, new: str, why: str) -> None:
    with pytest.raises(InternalError) as error:
        lowered(step_stages, HEAD + BEFORE.replace(old, new))
    assert str(error.value) == (
        f"step_stages: {why}\nThis is a defect of wsched, please report it with the dump."
    )


def test_loops_that_do_not_follow_each_other() -> None:
    first = "for j in 0 .. n { mbarrier.wait full[stage(t * n + j + n, 4)], 0 }"
    text = BEFORE.replace("for k in", f"{first}\nfor k in")
    with pytest.raises(InternalError) as error:
        lowered(step_stages, HEAD + text)
    assert str(error.value) == (
        "step_stages: loop k starts at n * t, not n * t + n * 2\n"
        "This is a defect of wsched, please report it with the dump."
    )


def test_roles_are_stepped_apart() -> None:
    two = BEFORE.replace("\n}\n", "\n  role idle warps 4 .. 8 {\n  }\n}\n")
    after = step_stages(kernel(HEAD + two), LoweringOptions())
    (roles,) = (s for s in after.body if isinstance(s, Roles))
    assert roles.roles[1].body == ()


def test_circular_buffers_of_one_loop_are_stepped_apart() -> None:
    """The operands' by k and the epilogue's by chunk, each with a stage and parity of its own."""
    body = """
roles {
  role compute warps 0 .. 4 {
    for t in 0 .. tiles {
      for k in 0 .. n {
        mbarrier.wait full[stage(t * n + k, 4)], parity(t * n + k, 4)
      }
      for c in 0 .. 3 {
        mbarrier.wait empty[stage(t * 3 + c, 2)], parity(t * 3 + c, 2)
      }
    }
  }
}
"""
    before = kernel(HEAD + body)
    after = step_stages(before, LoweringOptions())
    env = {"tiles": 3, "n": 5, "first": 0}
    for k in (before, after):
        waits = [
            (s.bar.array, evaluate(s.bar.index, at), evaluate(s.parity, at))
            for s, at in execute_role(k, "compute", env, 0)
            if isinstance(s, MBarrierWait)
        ]
        steps = list(range(15))
        assert [w[1:] for w in waits if w[0] == "full"] == [(m % 4, m // 4 % 2) for m in steps]
        assert [w[1:] for w in waits if w[0] == "empty"] == [(m % 2, m // 2 % 2) for m in steps[:9]]
    text = print_kernel(after)
    assert "stage(" not in text and "parity(" not in text


def test_a_loop_of_one_thread() -> None:
    """What takes tiles waits for stages too, with the other parity, and one step ahead."""
    before = """
roles {
  role load warps 0 .. 4 {
    elect {
      for t in 0 .. tiles {
        mbarrier.wait empty[stage(t, 2)], parity(t, 2) ^ 1
        if n <= t {
          mbarrier.wait empty[stage(t + 1, 2)], parity(t + 1, 2) ^ 1
        }
        break n <= t
      }
    }
  }
}
"""
    after = """
roles {
  role load warps 0 .. 4 {
    elect {
      for t in 0 .. tiles carry (STAGE, PARITY) {
        mbarrier.wait empty[stage_t], parity_t ^ 1
        if n <= t {
          mbarrier.wait empty[FOLLOWING], parity_t ^ select(1 <= stage_t, 1, 0) ^ 1
        }
        break n <= t
        let next: i32 = stage_t + 1
        let wraps: pred = 2 <= next
        yield select(wraps, next - 2, next), parity_t ^ select(wraps, 1, 0)
      }
    }
  }
}
"""
    after = after.replace("STAGE", "stage_t: i32 = 0 -> stage_t_end")
    after = after.replace("PARITY", "parity_t: i32 = 0 -> parity_t_end")
    after = after.replace("FOLLOWING", "select(1 <= stage_t, stage_t - 1, stage_t + 1)")
    assert lowered(step_stages, HEAD + before) == full(HEAD + after)


INTERVAL = """
param n: i32
param start: i32
param stop: i32
param first: i32
param count: i32
mbarrier full[4] arrivals 1
mbarrier empty[4] arrivals 4
"""


def share(groups: int) -> str:
    """The tiles that a share of the merged loop touches; where the inner loop begins is carried.

    Groups take turns; what is carried skips the other groups' tiles, which are whole ones.
    """
    begin, rest, skip = "start", "count", "end"
    if groups > 1:
        begin, skip = "max(start, (first + g) * n)", f"end + n * {groups - 1}"
        rest = f"ceildiv(max(count - g, 0), {groups})"
    return f"""
roles {{
  role compute warps 0 .. {4 * groups} as g {{
    for t in 0 .. {rest} carry (begin: i32 = {begin} -> begin_end) {{
      let at: i32 = first + t * {groups} {"+ g" if groups > 1 else ""}
      let end: i32 = min(stop, (at + 1) * n)
      for m in begin .. end {{
        mbarrier.wait full[stage(m - start, 4)], parity(m - start, 4)
        if begin < m {{
          mbarrier.arrive empty[stage(m - 1 - start, 4)]
        }}
      }}
      if begin < end {{
        mbarrier.arrive empty[stage(end - 1 - start, 4)]
      }}
      yield {skip}
    }}
  }}
}}
"""


def test_where_the_inner_loop_begins_is_carried(golden: object) -> None:
    """It may do so within a tile: stage and parity go on from the loop before."""
    assert lowered(step_stages, INTERVAL + share(1)) == golden


def test_groups_that_take_turns_skip_a_tile(golden: object) -> None:
    assert lowered(step_stages, INTERVAL + share(2)) == golden


@budget(80)
@given(st.integers(1, 3), st.integers(0, 5), st.integers(0, 12), st.integers(0, 14))
def test_a_share_in_steps_equals_direct_evaluation(
    groups: int, n: int, start: int, length: int
) -> None:
    """Of every group; together they visit the whole share, at stages m % 4, parities m // 4 % 2."""
    per_tile, end = max(n, 1), start + length
    env = {"n": n, "start": start, "stop": end if n else start, "first": start // per_tile}
    env["count"] = -(-end // per_tile) - env["first"]
    before = kernel(INTERVAL + share(groups))
    after = step_stages(before, LoweringOptions())
    found = []
    for group in range(groups):
        mine = barriers(after, "compute", env, group)
        assert mine == barriers(before, "compute", env, group)
        found += [(stage, parity) for op, stage, parity in mine if op == "mbarrier.wait"]
    steps = range(length if n else 0)
    assert sorted(found) == sorted((m % 4, m // 4 % 2) for m in steps)


RAGGED = """
param tiles: i32
global counts: s32[tiles]
mbarrier full[4] arrivals 1
roles {
  role load warps 0 .. 4 {
    for t in 0 .. tiles carry (m: i32 = 0 -> steps) {
      n: i32 = ld.global.scalar counts[t]
      for k in 0 .. n {
        mbarrier.wait full[stage(m + k, 4)], parity(m + k, 4)
      }
      yield m + n
    }
  }
}
"""


@given(st.lists(st.integers(0, 9), max_size=8))
def test_trips_that_are_read_from_memory(counts: list[int]) -> None:
    """As many steps as memory says, none for some tiles."""
    before = kernel(RAGGED)
    memory = {f"counts[{t}]": n for t, n in enumerate(counts)} | {"tiles": len(counts)}
    waits = []
    for k in (before, step_stages(before, LoweringOptions())):
        waits.append([
            (evaluate(s.bar.index, env), evaluate(s.parity, env))
            for s, env in execute_role(k, "load", dict(memory))
            if isinstance(s, MBarrierWait)
        ])  # fmt: skip
    assert waits[0] == waits[1]
    assert len(waits[0]) == sum(counts)


def test_a_skip_that_is_read_from_memory() -> None:
    """It cannot be computed before the loops."""
    text = RAGGED.replace("yield m + n", "yield m + n + n")
    with pytest.raises(InternalError) as e:
        step_stages(kernel(text), LoweringOptions())
    assert e.value.why == "loop t moves by n steps, not always the same number"


def test_a_loop_that_begins_at_a_constant_takes_no_step_from_the_one_in_front() -> None:
    """What was filled ahead ends where the sizes say, the loops that fill the rest begin behind."""
    ahead = """
    roles {
      role load warps 0 .. 4 {
        for m in 0 .. min(3, n) { mbarrier.wait full[stage(m, 4)], parity(m, 4) }
        for k in 0 .. n { mbarrier.wait full[stage(k + 3, 4)], parity(k + 3, 4) }
      }
    }
    """
    lines = [line.strip() for line in lowered(step_stages, HEAD + ahead).splitlines()]
    assert (
        "for k in 0 .. n carry (stage_k: i32 = 3 -> stage_k_end, parity_k: i32 = 0 -> parity_k_end)"
        " {" in lines
    )
