"""Results that are stored during the next tile's main loop: the text, what is refused, the runs."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowering.ground.errors import UnsupportedError
from lowering.kernel.nodes import TmaStore
from lowering.kernel.visit import walk
from passes.defer_stores import defer_stores
from tests.on_machine import Problem, exact, kernel, operands, run
from tests.passes.texts import full, lowered, unchanged
from tests.proofs import proved
from tests.schedules import cooperative, deferred, dynamic, exchanged
from wsched.schedule.matmul.params import MatmulParams

DECLARED = """
param n: i32
param tiles: i32
tensormap D: bf16[512, 512] box 64x64 swizzle 128
shared A_s: bf16[1][64x64] swizzle 128
shared B_s: bf16[1][128x64] swizzle 128
shared D_s: bf16[2][64x64] swizzle 128
named_barrier D_store[1] threads 128
roles {
  role compute warps 0 .. 4 as group {
    zero: frag<f32, 64x128> = frag.fill 0.0
"""

MAIN = """wgmma.fence
acc_k: frag<f32, 64x128, async> = wgmma acc, A_s[0, 0, 0], B_s[0, 0, 0]
wgmma.commit
acc_next: frag<f32, 64x128, async> = wgmma.wait acc_k, 1
"""


def put(chunk: int, value: str, tile: str = "t", pending: int = 0) -> str:
    return f"""on %warpgroup.warp 0 {{
  elect {{
    bulk.wait {pending}, read=true
  }}
}}
bar.sync D_store[group]
stmatrix D_s[{chunk}, 0, 0], {value}
fence.proxy.async
bar.sync D_store[group]
on %warpgroup.warp 0 {{
  elect {{
    tma.store D[{tile} * 64, {64 * chunk}], D_s[{chunk}, 0, 0]
    bulk.commit
  }}
}}
"""


def indented(text: str, by: int) -> str:
    return "".join(f"{' ' * by}{line}\n" for line in text.splitlines())


WAIT = """on %warpgroup.warp 0 {
  elect {
    bulk.wait 0, read=true
  }
}
"""

CHUNK = (
    put(0, "out", pending=1).replace("D_s[0,", "D_s[c % 2,").replace("* 64, 0]", "* 64, c * 64]")
)

LOOP = f"""    for t in 0 .. tiles carry (before: frag<f32, 64x128> = zero -> last) {{
      for k in 0 .. n event main_loop t carry (acc: frag<f32, 64x128, async> = before -> sum) {{
{indented(MAIN, 8)}        yield acc_next
      }}
      total: frag<f32, 64x128> = wgmma.wait sum, 0
      for c in 0 .. 2 unroll {{
        part: frag<f32, 64x64> = frag.columns total, c * 64
        out: frag<bf16, 64x64> = frag.cast part
{indented(CHUNK, 8)}      }}
      yield total
    }}
"""

END = """    on %warpgroup.warp 0 {
      elect {
        bulk.wait 0, read=true
      }
    }
  }
}
"""

BEFORE = DECLARED + LOOP + END

AFTER = f"""{DECLARED}    out2_none: frag<bf16, 64x64> = frag.fill 0.0
    out3_none: frag<bf16, 64x64> = frag.fill 0.0
    for t in 0 .. tiles carry (before: frag<f32, 64x128> = zero -> last, out2_held: \
frag<bf16, 64x64> = out2_none -> out2_last, out3_held: frag<bf16, 64x64> = out3_none -> out3_last, \
t_held: i32 = 0 -> t_last, any_held: i32 = 0 -> any_last) {{
      for k in 0 .. n event main_loop t carry (acc: frag<f32, 64x128, async> = before -> sum) {{
{indented(MAIN, 8)}        if 0 < any_held {{
          if k == min(0, n - 1) {{
{indented(put(0, "out2_held", "t_held"), 12)}          }}
          if k == min(1, n - 1) {{
{indented(put(1, "out3_held", "t_held"), 12)}          }}
        }}
        yield acc_next
      }}
      if n <= 0 and 0 < any_held {{
{indented(put(0, "out2_held", "t_held") + put(1, "out3_held", "t_held"), 8)}      }}
      total: frag<f32, 64x128> = wgmma.wait sum, 0
      part2: frag<f32, 64x64> = frag.columns total, 0
      out2: frag<bf16, 64x64> = frag.cast part2
      part3: frag<f32, 64x64> = frag.columns total, 64
      out3: frag<bf16, 64x64> = frag.cast part3
      yield total, out2, out3, t, 1
    }}
    if 0 < any_last {{
{indented(put(0, "out2_last", "t_last") + put(1, "out3_last", "t_last"), 6)}    }}
{END}"""


def test_text() -> None:
    assert unchanged(defer_stores, BEFORE)
    found = lowered(defer_stores, BEFORE, deferred_stores=True)
    assert found == full(AFTER), found


def added(chunk: int, value: str, tile: str, rows: str) -> str:
    """Rows onto those that numbers say."""
    return (
        f"{rows}: frag<s32, 64x1> = frag.load_global R[{tile} * 64, 0]\n"
        f"frag.red_global add, X[0, {chunk}], {value}, limit=n - {tile} * 64, index={rows}, "
        "any_order=true\n"
    )


ADDS = DECLARED.replace(
    "roles {", "global R: s32[512, 1]\nglobal X: bf16[512, 512] align 4\nroles {"
)


def both_added(tile: str, value: str, number: int) -> str:
    return "".join(
        added(chunk, f"out{n}_{value}", tile, f"rows{n}{number}") for n, chunk in ((2, 0), (3, 64))
    )


def test_chunks_that_threads_add() -> None:
    """Each is added with the numbers of its tile's rows, which are loaded for it alone, then."""
    loop = LOOP.replace(indented(CHUNK, 8), indented(
        added(0, "out", "t", "rows").replace("X[0, 0]", "X[0, c * 64]"), 8
    ))  # fmt: skip
    end = "  }\n}\n"
    found = lowered(defer_stores, ADDS + loop + end, deferred_stores=True)
    after = AFTER.replace(DECLARED, ADDS).replace(END, end)
    for chunk in (0, 1):
        value = f"out{chunk + 2}_held"
        rows = f"rows{chunk + 2}2"
        after = after.replace(
            f"{{\n{indented(put(chunk, value, 't_held'), 12)}",
            f"{{\n{indented(added(64 * chunk, value, 't_held', rows), 12)}",
        )
    for value, number, by in (("held", 3, 8), ("last", 4, 6)):
        puts = "".join(put(c, f"out{c + 2}_{value}", f"t_{value}") for c in (0, 1))
        assert indented(puts, by) in after
        after = after.replace(
            indented(puts, by), indented(both_added(f"t_{value}", value, number), by)
        )
    assert found == full(after), found


CARRIED = (
    ("for c in 0 .. 2 unroll {", """first: frag<f32, 1x64> = frag.fill 1.0
      for c in 0 .. 2 carry (ahead: frag<f32, 1x64> = first -> rest) unroll {
        next: frag<f32, 1x64> = frag.fill 2.0"""),
    ("        out: frag<bf16, 64x64> = frag.cast part", """
        added: frag<f32, 64x64> = frag.pointwise add, part, ahead
        for b in 0 .. 1 unroll {
        out: frag<bf16, 64x64> = frag.cast added"""),
    ("      }\n      yield total\n", "      }\n      yield next\n      }\n      yield total\n"),
)  # fmt: skip


def test_what_chunks_carry_and_blocks_of_rows() -> None:
    """A loop in a chunk is written out as well; a load that is a trip ahead goes from trip to trip;
    a chunk's stores read what its own trip has made.
    """
    loop = LOOP
    for before, after in CARRIED:
        assert before in loop
        loop = loop.replace(before, after)
    found = lowered(defer_stores, DECLARED + loop + END, deferred_stores=True)
    assert "added2: frag<f32, 64x64> = frag.pointwise add, part2, first\n" in found
    assert "added3: frag<f32, 64x64> = frag.pointwise add, part3, next2\n" in found
    outs = re.findall(r"(out\d+): frag<bf16, 64x64> = frag.cast added", found)
    assert len(outs) == 2 and f"yield total, {', '.join(outs)}, t, 1" in found


REFUSED = {
    "steps": (
        LOOP.replace("0 .. n event", "0 .. n step 2 event"),
        "a main loop by steps of 2",
    ),
    "a further wait": (
        LOOP.replace("      yield total\n", indented(WAIT, 6) + "      yield total\n"),
        "a tile with a wait for stores behind the last one",
    ),
    "no loop over tiles": (
        LOOP.replace(" event main_loop t", ""),
        "a kernel without a loop over tiles that stores each behind its products",
    ),
    "sums": (
        LOOP.replace("        out: frag<bf16, 64x64> = frag.cast part\n", "").replace(
            "stmatrix D_s[c % 2, 0, 0], out", "st.shared D_s[c % 2, 0, 0], part"
        ),
        "sums as they are, which the next tile's take the registers of",
    ),
    "a branch": (
        LOOP.replace("for c in 0 .. 2 unroll {", "if 0 < n {").replace("c * 64", "0")
        .replace("c % 2", "0"),
        "chunks in `if`",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    loop, what = REFUSED[name]
    text = DECLARED + loop + END
    if name == "sums":
        text = text.replace("D: bf16", "D: f32").replace(
            "D_s: bf16[2][64x64]", "D_s: f32[2][64x32]"
        )
        text = text.replace("box 64x64", "box 64x32").replace(
            "part: frag<f32, 64x64>", "part: frag<f32, 64x32>"
        )
    with pytest.raises(UnsupportedError) as error:
        lowered(defer_stores, text, deferred_stores=True)
    assert str(error.value) == (
        f"deferred_stores of {what} is not supported; supported: tiles that warpgroups share, "
        "stored whole, by TMA or added, and of a type that sums are cast to"
    )


KERNELS: dict[str, MatmulParams] = {
    "chunks": deferred(cooperative(128, 128, 32, stages=3, epilogue_stages=2)),
    "a chunk": deferred(cooperative(64, 64, 32, groups=1, stages=3, registers=None)),
    "cluster": deferred(dynamic(cooperative(128, 128, 32, stages=3, cluster=(2, 1)))),
    "boxes": deferred(exchanged(cooperative(256, 96, 32, stages=3, epilogue_stages=2))),
    "in flight": deferred(cooperative(128, 128, 32, stages=4, in_flight=2)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", KERNELS)
def test_right_proved_and_without_spills(name: str) -> None:
    made = kernel(KERNELS[name])
    proved(made.kernel, made.plan)
    assert made.resources.clean


@settings(max_examples=25, deadline=None)
@given(
    name=st.sampled_from(sorted(KERNELS)),
    m=st.integers(1, 40),
    n=st.integers(1, 40),
    k=st.integers(0, 20),
    sms=st.integers(2, 4),
    seed=st.integers(0, 99),
)
def test_any_number_of_tiles_and_steps(
    name: str, m: int, n: int, k: int, sms: int, seed: int
) -> None:
    """Also none, one, and fewer steps than chunks."""
    p = Problem(8 * m, 8 * n, 8 * k, sms)
    a, b = operands(p, "bf16", seed, integer=True)
    found = run(kernel(KERNELS[name]), p, a, b, "bf16", seed=seed, races=True).astype("f4")
    assert (found == exact(a, b).astype(found.dtype)).all()


def test_each_chunk_has_a_step() -> None:
    """Of the final kernel: stores stand in the main loop, behind it and behind the tiles."""
    (role,) = (r for s in kernel(KERNELS["chunks"]).kernel.body if hasattr(s, "roles")
               for r in s.roles if r.group is not None)  # fmt: skip
    assert sum(isinstance(s, TmaStore) for s in walk(role.body)) == 3 * 2
    plain = kernel(replace(KERNELS["chunks"], deferred_stores=False))
    assert "held" not in plain.dump("kernel")
