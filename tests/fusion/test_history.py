"""The calls of a schedule: a sequence that its states share."""

from __future__ import annotations

import copy
import pickle

from wsched.fusion import History, PrimitiveCall

A, B, C = (PrimitiveCall("split", ("T0", n, 2)) for n in range(3))


def test_it_is_the_tuple_of_its_calls() -> None:
    found = History((A, B)).and_then(C)
    assert found == (A, B, C)
    assert found == (A, B, C)
    assert found != (A, B)
    assert found != [A, B, C]
    assert [*reversed(found)] == [C, B, A]
    assert (found[0], found[-1], found[1:], len(found)) == (A, C, (B, C), 3)
    assert hash(found) == hash((A, B, C))
    assert repr(found) == repr((A, B, C))
    assert History() == ()
    assert not History()


def test_one_more_leaves_what_was() -> None:
    one = History((A,))
    assert (one.and_then(B), one.and_then(C), one) == ((A, B), (A, C), (A,))


def test_copies_of_long_ones() -> None:
    """They are longer than the interpreter's stack is deep."""
    found = History([A] * 5000)
    assert pickle.loads(pickle.dumps(found)) == found
    assert copy.deepcopy(found) == found
