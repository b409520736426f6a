"""Loops of a walk through a ring: trips that take steps, or leave some to others.

Each program is text; what comes of its walk is a table: the steps that loops leave out, how long
their trips are, and what is wrong. Its shape, as waits see it, is in the table too.
"""

from __future__ import annotations

from collections import Counter
from functools import partial

import pytest

from lowering.kernel.control import Let
from lowering.kernel.text import parse_kernel
from lowering.kernel.traits import Memory
from lowering.proof.agent import agents
from lowering.proof.automaton import Automaton
from lowering.proof.linear import Facts
from lowering.proof.loops import follow
from lowering.proof.obligation import RefutedError, UnknownError
from lowering.proof.rings import Ring
from lowering.proof.same import _wait
from lowering.proof.shape import Shaper, text
from lowering.proof.state import State
from lowering.proof.steps import Steps
from tests.conftest import Golden

KERNEL = """
kernel k threads 256 cluster 1 grid 1 {{
  param n: i32
  param m: i32
  shared w: s32[{stages}][1x1] at 0
  mbarrier f[{stages}] arrivals 1 at 64
  mbarrier e[{stages}] arrivals 1 at 128
  let half: i32 = n // 2
  roles {{
    role r warps 0 .. 8 as g {{
{body}
    }}
  }}
}}
"""
NEXT = "s ^ 1, p ^ s"
STEP = "mbarrier.wait f[{s}], {p}\nelect {{ mbarrier.arrive e[{s}] }}"


def step(s: str = "s", p: str = "p") -> str:
    return STEP.format(s=s, p=p)


def loop(
    inner: str, after: str = NEXT, trips: str = "i in 0 .. n", init: str = "0 0", names: str = "s p"
) -> str:
    """A loop that carries a stage and a parity."""
    (s, p), (first, parity) = names.split(), init.split()
    carried = f"{s}: i32 = {first} -> {s}_end, {p}: i32 = {parity} -> {p}_end"
    return f"for {trips} carry ({carried}) {{\n{inner}\nyield {after}\n}}"


TWICE = loop(loop(step("t", "q"), "t ^ 1, q ^ t", "j in 0 .. m", "s p", "t q"), "t_end, q_end")
PROGRAMS = {
    "each step": loop(step()),
    "each step of parts": TWICE,
    "each step twice": loop(step() + "\n" + step()),
    "the other stage": loop(step("s ^ 1")),
    "never further": loop(step(), "s, p"),
    "a parity that stays": loop(step(), "s ^ 1, p"),
    "a step in front": "mbarrier.wait f[0], 0\nelect { mbarrier.arrive e[0] }\n"
    + loop(step(), init="1 0"),
    "a step behind": loop(step()) + "\n" + step("s_end", "p_end"),
    "a step behind that is taken": loop(step()) + "\n" + step("0", "0"),
    "every other step": loop(step(), "s, p ^ 1"),
    "every other step, by the second": loop(step(), "s, p ^ 1", init="g 0"),
    "from the second step": loop(step(), init="1 0"),
    "from the step of a group": loop(step(), init="g 0"),
    "a step of two": loop(step(), "s, p ^ 1", init="g 0"),
    "a step if": loop(f"if i < m {{\n{step()}\n}}"),
    "a step if, in both ways": loop(f"if i < m {{\n{step()}\n}} else {{\n{step()}\n}}"),
    "a step if, and none": loop(f"if i < m {{\n{step()}\n}}", "s, p"),
    "a step if there is one": loop(f"if i < n {{\n{step()}\n}}"),
    "a step if there is one more": loop(f"if i + 1 < n {{\n{step()}\n}}"),
    "a step from the first on": loop(f"if 0 <= i {{\n{step()}\n}}"),
    "a step from one on": loop(f"if 2 <= i {{\n{step()}\n}}", trips="i in 2 .. n"),
    "behind some trips": loop(step()) + f"\nif n <= 0 {{\n{step('0', '0')}\n}}",
    "behind no trip": loop(step()) + f"\nif 0 < n {{\n{step('s_end', 'p_end')}\n}}",
    "until": loop(f"break m <= i\n{step()}"),
    "until, behind": loop(f"{step()}\nbreak m <= i"),
    "two trips": loop(step(), trips="i in 0 .. 2"),
    "three trips": loop(step(), trips="i in 0 .. 3"),
    "three trips in steps": loop(step(), trips="i in 1 .. 7 step 2"),
    "64 trips": loop(step(), trips="i in 0 .. 64"),
    "65 trips": loop(step(), trips="i in 0 .. 65"),
    "no trip": loop(step(), trips="i in 2 .. 2"),
    "two trips, then more": loop(step(), trips="i in 0 .. 2")
    + "\n"
    + loop(step("t", "q"), "t ^ 1, q ^ t", "j in 0 .. n", "s_end p_end", "t q"),
    "two trips of parts": loop(
        loop(step("t", "q"), "t ^ 1, q ^ t", "j in 0 .. 2", "s p", "t q"), "t_end, q_end"),
    "two trips of every other step": loop(
        loop(step("t", "q"), "t, q ^ 1", "j in 0 .. 2", "s p", "t q"), "t_end, q_end"),
    "three trips of every other step": loop(
        loop(step("t", "q"), "t, q ^ 1", "j in 0 .. 3", "s p", "t q"), "t_end, q_end"),
    "two trips of every other step, of a group": loop(
        loop(step("t", "q"), "t, q ^ 1", "j in 0 .. 2", "s p", "t q"), "t_end, q_end",
        init="g 0"),
    "two trips, of which one breaks": loop(f"break n < 1\n{step()}", trips="i in 0 .. 2"),
    "in steps": loop(step(), trips="i in 0 .. n step 3"),
    "in steps of the grid": loop(step(), trips="i in %ctaid.x .. n step %nctaid.x"),
    "held over a trip": loop(
        "mbarrier.wait f[s], p\nif 0 < i { elect { mbarrier.arrive e[s ^ 1] } }")
    + "\nif 0 < n { elect { mbarrier.arrive e[s_end ^ 1] } }",
    "held too long": loop("mbarrier.wait f[s], p\nif 1 < i { elect { mbarrier.arrive e[s] } }"),
    "never released": loop("mbarrier.wait f[s], p"),
    "counted by the trip": "for i in 0 .. n {\n" + step("i % 2", "i // 2 % 2") + "\n}",
    "as many as half": loop(step(), trips="i in 0 .. half"),
    "as a select says": loop(step(), "select(s == 1, 0, s + 1), p ^ select(s == 1, 1, 0)"),
    "no wait": "for i in 0 .. n {\nlet x: i32 = i + 1\n}",
    "first arrivals": "for i in 0 .. 2 { elect { mbarrier.arrive e[i] } }\n" + loop(step()),
    "first arrivals, of 64": "for i in 0 .. 64 { elect { mbarrier.arrive e[i % 2] } }\n"
    + loop(step()),
    "first arrivals, of 65": "for i in 0 .. 65 { elect { mbarrier.arrive e[i % 2] } }\n"
    + loop(step()),
    "first arrivals, of n": "for i in 0 .. n { elect { mbarrier.arrive e[i % 2] } }\n"
    + loop(step()),
    "five steps, and one further": loop("\n".join(
        step(*at) for at in (("s", "p"), ("s ^ 1", "p ^ s"), ("s", "p ^ 1"),
                             ("s ^ 1", "p ^ s ^ 1"), ("s", "p")))),
}  # fmt: skip

ONE_ON = "select({s} == 2, 0, {s} + 1), {p} ^ select({s} == 2, 1, 0)"
TWO_ON = "select({s} == 0, 2, {s} - 1), {p} ^ select({s} == 0, 0, 1)"
FIRST, OTHER = ONE_ON.format(s="s", p="p"), TWO_ON.format(s="s", p="p")
INNER, LESS = ONE_ON.format(s="t", p="q"), TWO_ON.format(s="t", p="q")


def within(after: str, trips: str, begin: str = "0 0") -> str:
    """A loop in each trip of one, from where that is."""
    inner = loop(step("t", "q"), after, f"j in 0 .. {trips}", "s p", "t q")
    return loop(inner, "t_end, q_end", init=begin)


BEHIND = step("select(s == 0, 2, s - 1)", "p ^ select(s == 0, 1, 0)")
OF_THREE = {
    "behind what is carried": loop(BEHIND, FIRST, init="1 0"),
    "behind what is carried, every other": loop(BEHIND, OTHER, init="1 0"),
    "behind what is carried, in two trips": loop(
        BEHIND, FIRST, trips="i in 0 .. 2", init="1 0"),
    "behind what is carried, every other in two trips": loop(
        BEHIND, OTHER, trips="i in 0 .. 2", init="1 0"),
    "behind what is carried, late": loop(BEHIND, FIRST, init="2 0"),
    "each step": loop(step(), FIRST),
    "every other step": loop(step(), OTHER),
    "every other step of a group": loop(step(), OTHER, init="g 0"),
    "each step of a group": loop(step(), FIRST, init="g 0"),
    "two trips": loop(step(), FIRST, trips="i in 0 .. 2"),
    "two trips of a group": loop(step(), FIRST, trips="i in 0 .. 2", init="g 0"),
    "two trips of every other step": loop(step(), OTHER, trips="i in 0 .. 2"),
    "three trips of every other step, of a group": loop(
        step(), OTHER, trips="i in 0 .. 3", init="g 0"),
    "one trip": loop(step(), FIRST, trips="i in 0 .. 1", init="g 0"),
    "never further": loop(step(), "s, p"),
    "no further in two trips": loop(step(), "s, p", trips="i in 0 .. 2"),
    "trips in trips": within(INNER, "m"),
    "trips of every other step in trips": within(LESS, "m"),
    "two trips in trips": within(INNER, "2"),
    "two trips of every other step in trips": within(LESS, "2"),
    "two trips of every other step in trips of a group": within(LESS, "2", "g 0"),
    "a trip that takes none": loop(f"if i < m {{\n{step()}\n}}", FIRST, trips="i in 0 .. 2"),
    "two ways in two trips": loop(
        f"if n < m {{\n{step()}\n}}", FIRST, trips="i in 0 .. 2"),
    "leaves out steps in one way": loop(
        step(), "select(n < m, select(s == 2, 0, s + 1), select(s == 0, 2, s - 1)), "
        "p ^ select(n < m, select(s == 2, 1, 0), select(s == 0, 0, 1))"),
    "left in two trips": loop(f"break m <= i\n{step()}", FIRST, trips="i in 0 .. 2")
    + "\n" + step("s_end", "p_end"),
    "left behind a step": loop(f"{step()}\nbreak m <= i", FIRST)
    + "\n" + step("s_end", "p_end"),
}  # fmt: skip


def told(program: str, stages: int = 2) -> str:
    """What comes of a program, in each warpgroup, and its shape."""
    lines: list[str] = []
    kernel = parse_kernel(KERNEL.format(body=program, stages=stages))
    ring = Ring("f", "e", stages, frozenset("w"), True, False, Memory.SHARED, frozenset())
    for agent in agents(kernel):
        facts = Facts(
            natural=frozenset("nm"),
            defined={s.var.name: s.value for s in kernel.body if isinstance(s, Let)},
        )
        steps = Steps.of(agent.body, (stages,), facts)
        auto = Automaton(agent, steps, (ring,), {"e": frozenset({(None, 1)})}, follow)
        try:
            way = auto.run(State(facts=facts))
        except RefutedError as e:
            said = f"{e.name}: {e.why}"
        except UnknownError as e:
            said = f"not known: {e}"
        else:
            assert auto.left == [] and not auto.values and not auto.places and not auto.one
            found = {
                what: {f"{loop_} {array}": str(p.expr()) for (loop_, array), p in values.items()}
                for what, values in (
                    ("begins", way.begins), ("skips", way.skips), ("lengths", way.lengths),
                )
            }  # fmt: skip
            first = dict(Counter((stage, told_) for _, stage, told_ in way.first))
            said = f"{found}, idle {sorted(way.idle)}, first {first}, {len(way.releases)} released"
            shaper = Shaper(
                agent, steps, partial(_wait, "f"), way, (ring,), frozenset({"n", "m", "half"})
            )
            said += f"\n    {text(shaper.whole())}"
        lines.append(f"  {agent.group}: {said}")
    return "\n".join(lines)


@pytest.mark.parametrize("part", range(4))
def test_loops(part: int, golden: Golden) -> None:
    assert "\n".join(f"{name}\n{told(PROGRAMS[name])}" for name in [*PROGRAMS][part::4]) == golden


def test_loops_of_three_stages(golden: Golden) -> None:
    assert "\n".join(f"{name}\n{told(p, 3)}" for name, p in OF_THREE.items()) == golden
