"""Where an agent stands in its rings: what statements make of accesses, steps and fills."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

from lowering.ground.expr import Const, Var
from lowering.ground.poly import Poly, poly
from lowering.kernel.traits import Memory
from lowering.proof.linear import Facts
from lowering.proof.rings import Ring
from lowering.proof.state import Access, Fill, Read, State, merged

X, Y = poly(Var("x")), poly(Var("y"))


def number(n: int) -> Poly:
    return poly(Const(n))


NONE = Poly(())
RING = Ring("a_full", "a_empty", 3, frozenset({"s"}), True, False, Memory.SHARED, frozenset())
A, B = Read("a", X), Read("b", Y)
STATE = State(
    counts=(("a", X), ("b", Y)),
    reads=(A, B),
    fills=(Fill("c", X, True), Fill("d", Y, False)),
    pending=frozenset({("a", X)}),
    groups=(frozenset({("a", Y)}), frozenset({("b", X)})),
)


def test_accesses_through_the_generic_proxy() -> None:
    """A fence counts behind what was done, a meeting behind the fence; cells have their own."""
    done = Access(True)
    assert Access().fence() == Access().meet() == Access()
    assert done.fence() == Access(True, True) and done.meet() == Access(True, False, True)
    assert done.fence().meet() == Access(True, True, True)
    assert done.meet().fence() == Access(True, True)  # who met before the fence meets again
    cells = Access(True, cells=True, flying=True)
    assert cells.fence() == cells.before() == cells
    assert done.before() == done
    assert cells.arrived() == Access(True, cells=True)
    assert cells.arrived().meet().before() == Access(True, True, False, cells=True)


def test_what_is_begun() -> None:
    """A step that is read is known to all threads; nothing else has been done yet."""
    assert Read("a", X) == Read("a", X, Access(), (), True, False, False, False)
    fill = Fill("a", X, True)
    assert not (fill.untold or fill.told or fill.copies or fill.stored or fill.bytes)
    assert (fill.ordered, fill.issued, fill.access) == (False, False, Access())


def test_steps_that_are_counted() -> None:
    """One of each array; what is not counted yet is at the first step."""
    assert STATE.count("a") == X and STATE.count("b") == Y and STATE.count("z") == NONE
    for names in permutations("abz"):
        counted = STATE
        for n in names:
            counted = counted.counted(n, number("abz".index(n)))
        assert counted.counts == (("a", NONE), ("b", number(1)), ("z", number(2)))
    moved = STATE.counted("b", X).counted("0", X)
    assert moved.uncounted("b", STATE).counts == (("0", X), ("a", X), ("b", Y))
    assert moved.uncounted("0", STATE).counts == (("a", X), ("b", X))
    assert (
        State().counted("b", X).counted("a", Y).uncounted("b", STATE).counts
        == STATE.counted("a", Y).counts
    )


def test_fills_of_rings() -> None:
    """One of each ring."""
    assert STATE.fill("c") == STATE.fills[0] and STATE.fill("d") == STATE.fills[1]
    assert STATE.fill("a") is None
    new, first = Fill("c", Y, False), Fill("a", X, True)
    assert STATE.filling(new).fills == (new, STATE.fills[1])
    assert STATE.filling(first).fills == (first, *STATE.fills)


def test_steps_that_are_held() -> None:
    """Those of the ring at the same stage that nothing has been told of, in their order."""
    told = ((None, 32),)
    held = [
        Read("a_full", X), Read("a_full", X + number(3)), Read("a_full", X + number(1)),
        Read("b_full", X), replace(Read("a_full", X), told=told),
    ]  # fmt: skip
    state = State(reads=tuple(held))
    assert state.holding(RING, X) == state.holding(RING, X - number(3)) == held[:2]
    assert state.holding(RING, X + number(4)) == held[2:3]
    assert state.holding(RING, X + number(2)) == state.holding(RING, Y) == []
    assert state.holding(RING, None) == []
    assert replace(state, reads=(held[4],)).holding(RING, X) == []
    other = Read("z", Y)
    changed = state.reading(held[1], other).reads
    assert changed == (held[0], other, *held[2:])


def test_one_of_two_equal_steps_is_replaced() -> None:
    twice = (Read("a", X), Read("a", X))
    assert State(reads=twice).reading(twice[1], B).reads == (A, B)


def test_all_accesses_at_once() -> None:
    state = replace(STATE, reads=(replace(A, access=Access(True), fenced=32), B))
    assert [r.access for r in state.accessed(Access.fence).reads] == [Access(True, True), Access()]
    met = state.accessed(Access.meet)
    assert [r.access for r in met.reads] == [Access(True, False, True), Access()]
    assert [r.fenced for r in met.reads] == [32, 0]
    stored = State(fills=(Fill("c", X, True, access=Access(True)),)).accessed(Access.fence)
    assert stored.fills == (Fill("c", X, True, access=Access(True, True)),)


def test_a_fence_of_some_threads_is_none_of_others() -> None:
    reads = replace(STATE, reads=(replace(A, fenced=1), B))
    for rings, threads, wanted in (("b", 1, [1, 1]), ("ab", 32, [32, 32]), ("b", 32, [1, 32])):
        assert [r.fenced for r in reads.fenced(rings, threads).reads] == wanted
    alone = replace(A, whole=False)
    state = State(reads=(alone, B), fills=(Fill("c", X, True), Fill("d", X, False)))
    for threads in (1, 32):
        found = state.ordered(threads)
        assert [r.ordered for r in found.reads] == [1, threads]
        assert [f.ordered for f in found.fills] == [1, threads]
        assert found.ordered(1) == found
    assert state.ordered(1).ordered(32) == state.ordered(32)


def test_every_step_moves() -> None:
    """Those that are counted, read, filled, and that products read."""
    moved = STATE.moved(lambda p: p + number(1))
    over_x, over_y = X + number(1), Y + number(1)
    assert moved == State(
        counts=(("a", over_x), ("b", over_y)),
        reads=(Read("a", over_x), Read("b", over_y)),
        fills=(Fill("c", over_x, True), Fill("d", over_y, False)),
        pending=frozenset({("a", over_x)}),
        groups=(frozenset({("a", over_y)}), frozenset({("b", over_x)})),
    )


def test_steps_that_are_equal_on_a_path() -> None:
    known = State(facts=Facts(known=(X - Y, Y - X)))
    assert known.same(X, Y) and not State().same(X, Y) and not known.same(X, Y + number(1))


def test_the_last_dozen_statements_are_kept() -> None:
    state = State()
    for n in range(20):
        state = state.said(str(n))
    assert state.trace == tuple(map(str, range(8, 20)))
    assert State().said("a").said("b").trace == ("a", "b")


def test_equal_states_are_one() -> None:
    """Which knows what all of them know, and came as the first one."""
    some, more = Facts(known=(X, Y)), Facts(known=(Y,))
    first, same = State(facts=some, trace=("1",)), State(facts=more, trace=("2",))
    other = State(reads=(A,), facts=some)
    assert (first == same) and first != other
    one, two = merged([first, other, same])
    assert (one.facts.known, one.trace) == ((Y,), ("1",))
    assert two == other and two.facts.known == some.known
    assert merged([same, first])[0].facts.known == (Y,)
    assert merged([]) == []
