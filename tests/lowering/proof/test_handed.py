"""Parts of sums that are handed on: what one warpgroup may do, and in which order."""

from __future__ import annotations

import pytest

from lowering.ground.expr import ONE, ZERO, Const, Expr, Var, as_expr
from lowering.kernel.text import parse_kernel
from lowering.proof.handed import _Hands, _Walk
from lowering.proof.linear import Facts
from lowering.proof.meet import _last_words
from lowering.proof.obligation import RefutedError, UnknownError
from lowering.proof.prove import prove
from tests.lowering.proof.by_words import said

C, J, N = Var("i"), Var("j"), Var("N")
FACTS = Facts(natural=frozenset({"N"}))
STORED, RAISED = ("store", C), ("raise", C, ONE)
WAITED, ADDED, RESET = ("wait", C, as_expr(2)), ("add", C), ("reset", C, ZERO)
HAND = (STORED, "meet", RAISED)
TAKE = (WAITED, "meet", ADDED, RESET)


def loop(*inner: object, stop: Expr = N, start: Expr = ZERO) -> tuple[object, ...]:
    return ("loop", start, stop, ONE, (), inner)


def ways(cond: Expr, then: tuple[object, ...] = (), other: tuple[object, ...] = ()) -> object:
    return ("if", cond, then, other)


def states(*shape: object) -> list[_Hands]:
    """Behind a program, which must be over."""
    walk = _Walk()
    found = walk.body(shape, [_Hands(facts=FACTS)], 0)
    for state in found:
        walk.over(state, "the program")
    return found


RIGHT = {
    "handed on": HAND,
    "several": (*HAND, *HAND),
    "taken over": TAKE,
    "two parts of one wait": (WAITED, "meet", ADDED, ADDED, RESET),
    "set back before it is added": (WAITED, RESET, "meet", ADDED),
    "taken over and handed on": (*TAKE, *HAND),
    "each trip": (loop(*TAKE, *HAND),),
    "a part each trip": (WAITED, "meet", loop(ADDED), RESET),
    "who hands on does not wait": (ways(N < 3, HAND, TAKE),),
    "met in one way of two": (WAITED, ways(N < 3, ("meet",), ("meet",)), ADDED, RESET),
    "no way there": (ways(N < 0, (ADDED,)),),
    "no other way there": (ways(as_expr(0) <= N, (), (ADDED,)),),
    "no trip there": (loop(ADDED, stop=ZERO),),
    "no trip there from two on": (loop(ADDED, start=as_expr(2), stop=as_expr(2)),),
    "a trip from one on": (
        loop(("wait", C, Var("%0")), "meet", ADDED, RESET, start=ONE),),
    "what both know": (
        ways(as_expr(0) < N, (("wait", C, N), "meet", ADDED, RESET)),),
    "a trip is below its end": (
        loop(("wait", C, N - Var("%0")), "meet", ADDED, RESET),),
    "a trip is not below its begin": (
        loop(("wait", C, Var("%0") + 1), "meet", ADDED, RESET),),
    "trips within trips": (
        loop(loop(("wait", C, N - Var("%1")), "meet", ADDED, RESET)),),
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_in_order(name: str) -> None:
    """Nothing is left to do where it is over."""
    assert states(*RIGHT[name])


BEFORE = "counter i is raised by 1 before all warps have stored and met"
ADD = "a part is added that no thread has waited for, and met"
WRONG = {
    "stored twice": ((STORED, STORED), "a part is stored before the last one was told"),
    "and met between": (
        (STORED, "meet", STORED), "a part is stored before the last one was told"),
    "raised before warps met": ((STORED, RAISED), BEFORE),
    "raised before anything is stored": ((RAISED,), BEFORE),
    "met before it is stored": (("meet", STORED, RAISED), BEFORE),
    "raised twice": ((*HAND, RAISED), BEFORE),
    "raised by two": (
        (STORED, "meet", ("raise", C, as_expr(2))), BEFORE.replace("by 1", "by 2")),
    "never raised": ((STORED, "meet"), "the program ends, and a part that is stored was not told"),
    "raised in one way": (
        (STORED, "meet", ways(N < 3, (RAISED,))),
        "the program ends, and a part that is stored was not told"),
    "not in each trip": (
        (loop(WAITED, RESET, STORED),),
        "a trip ends, and a part that is stored was not told"),
    "waits twice": ((WAITED, WAITED), "counter i is not set back"),
    "of none": (
        (("wait", C, N),), "counter i may be set back by who waits for none"),
    "set back by nobody": (
        (WAITED, "meet", ADDED), "the program ends, and counter i is not set back"),
    "set back behind the trips": (
        (loop(WAITED, "meet", ADDED), RESET), "a trip ends, and counter i is not set back"),
    "not awaited": ((RESET,), "counter i is set to 0 without a wait for it"),
    "another one": (
        (WAITED, ("reset", J, ZERO)), "counter j is set to 0 without a wait for it"),
    "to another number": (
        (WAITED, ("reset", C, ONE)), "counter i is set to 1 without a wait for it"),
    "set back twice": ((*TAKE, RESET), "counter i is set to 0 without a wait for it"),
    "added unasked": ((ADDED,), ADD),
    "warps have not met": ((WAITED, ADDED), ADD),
    "met before the wait": (("meet", WAITED, ADDED), ADD),
    "awaited a trip before": (
        (loop(ways(N < 3, (ADDED,)), WAITED, "meet", RESET),), ADD),
    "awaited before trips that wait": (
        (WAITED, "meet", RESET, loop(ways(N < 3, (ADDED,)), *TAKE)), ADD),
    "met in a trip that there may not be": ((WAITED, loop("meet"), ADDED), ADD),
    "what a trip was is not known behind": (
        (loop(), ("wait", C, N)), "counter i may be set back by who waits for none"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_is_not(name: str) -> None:
    """Each is refuted where it happens."""
    shape, why = WRONG[name]
    with pytest.raises(RefutedError) as raised:
        states(*shape)
    assert raised.value.why == why


def test_states_of_both_ways() -> None:
    """One each, with what is known there; those that are the same are one."""
    both = states(ways(N < 3))
    assert [s.facts.decide(N < 3) for s in both] == [True, False]
    assert len(states(ways(Var("taken")))) == 1
    assert [s.waited for s in states(loop(*TAKE))] == ["", "met"]
    assert [s.waited for s in states(loop("meet"))] == [""]
    assert len(states(*(ways(n > N) for n in range(1, 32)))) == 32


def test_what_is_not_followed() -> None:
    """More ways than a few, and what is no part of a shape."""
    with pytest.raises(UnknownError, match=r"^more than 32 states$"):
        states(*(ways(Var(f"x{n}") < 0) for n in range(6)))
    with pytest.raises(UnknownError, match=r"^more than 32 states$"):
        states(*(ways(n > N) for n in range(1, 33)))
    with pytest.raises(UnknownError, match=r"is not understood$"):
        states(("sleep", C))


def test_the_last_word_where_a_loop_is_left() -> None:
    """Behind a loop comes what came last at its end, or where it was left in the middle."""
    body = ("arrive", ("break", ONE), "sync")
    loop = ("loop", ZERO, Const(4), ONE, (), body)
    assert _last_words((loop,), frozenset()) == (frozenset({"sync", "arrive"}), frozenset())
    assert _last_words((loop, "arrive"), frozenset()) is None
    whole = ("loop", ZERO, Const(4), ONE, (), ("sync", "arrive"))
    assert _last_words((whole, "arrive"), frozenset()) is None


KERNEL = """
kernel k threads 256 cluster 1 grid 1 {{
  workspace parts: f32[ctas * 2][64x8]
  counter ready[ctas * 2]
  named_barrier all[2] id 1 threads 128
  named_barrier warp[2] id 3 threads 32
  roles {{
    role r warps 0 .. 8 as g {{
      v: frag<f32, 64x8> = frag.fill 1.0
      {body}
    }}
  }}
}}
"""
BY_THREADS = {
    "store": "frag.store_partial parts[g], v",
    "add": "sum: frag<f32, 64x8> = frag.add_partial v, parts[g]",
    "meet": "bar.sync all[g]",
    "cta": "cta.sync",
    "cluster": "cluster.sync",
    "few": "bar.sync warp[g]",
    "raise": "t: i32 = atom add, ready[g], 1, order=release.gpu",
    "both": "t2: i32 = atom add, ready[g], 1, order=acq_rel.gpu",
    "relaxed": "t3: i32 = atom add, ready[g], 1",
    "wait": "counter.wait ready[g], 1",
    "reset": "t4: i32 = atom exch, ready[g], 0",
}
COUNTED = ("raise", "both", "relaxed", "wait", "reset")


def claimed(words: str, by_one: bool = True) -> list[str]:
    """Why the order of each warpgroup's partial sums is open, empty if it is proved; counters are
    one thread's, or each warp's.
    """
    lines = [
        f"on %warpgroup.warp 0 {{ elect {{ {BY_THREADS[w]} }} }}"
        if by_one and w in COUNTED
        else f"elect {{ {BY_THREADS[w]} }}"
        if w in COUNTED
        else BY_THREADS[w]
        for w in words.split()
    ]
    found = prove(parse_kernel(KERNEL.format(body="\n".join(lines)))).obligations
    return [said(o) for o in found if o.name == "order of partial sums"]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("store meet raise", ""),
        ("store cta raise", ""),
        ("store cluster raise", ""),
        ("store meet both", ""),
        ("store meet relaxed", "the program ends, and a part that is stored was not told"),
        ("store few raise", BEFORE.replace("counter i", "counter {g}")),
        ("wait meet add reset", ""),
        ("wait add reset", ADD),
        ("store", "0 agents of a warpgroup raise counters or wait for them"),
        ("add", "0 agents of a warpgroup raise counters or wait for them"),
    ],
)
def test_statements(words: str, why: str) -> None:
    """Of each warpgroup: what its threads do, and which of it counts."""
    assert claimed(words) == [why.format(g=g) for g in range(2)]


def test_warps_that_each_raise() -> None:
    """One thread of a warpgroup does, or there are as many as warps."""
    why = "1 agents of a warpgroup raise counters or wait for them"
    assert claimed("store meet raise", by_one=False) == [why] * 2
    assert claimed("raise") == []  # tickets, no parts
