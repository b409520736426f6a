"""What was used most recently."""

from __future__ import annotations

from lowering.ground.recent import Recent


def test_what_was_used_longest_ago_goes() -> None:
    kept: Recent[str, int] = Recent(lambda: 2)
    assert kept.add("a", 1) == 1
    kept.add("b", 2)
    assert kept.get("a") == 1
    kept.add("c", 3)
    assert [kept.get(k) for k in "abc"] == [1, None, 3] and len(kept) == 2


def test_the_limit_is_asked_each_time() -> None:
    limit = [3]
    kept: Recent[int, int] = Recent(lambda: limit[0])
    for n in range(3):
        kept.add(n, n)
    limit[0] = 1
    kept.add(3, 3)
    assert len(kept) == 1 and kept.get(3) == 3


def test_bytes() -> None:
    kept: Recent[str, bytes] = Recent(lambda: 9, 10, len)
    kept.add("a", bytes(4))
    kept.add("b", bytes(6))
    assert len(kept) == 2
    kept.add("b", bytes(5))
    kept.add("c", bytes(1))
    assert len(kept) == 3  # 4 + 5 + 1
    kept.add("d", bytes(1))
    assert kept.get("a") is None and len(kept) == 3


def test_one_that_is_larger_than_the_limit_stays_alone() -> None:
    kept: Recent[str, bytes] = Recent(lambda: 9, 10, len)
    kept.add("a", bytes(4))
    kept.add("b", bytes(60))
    assert len(kept) == 1 and kept.get("b") == bytes(60)
    kept.add("c", bytes(10))
    assert len(kept) == 1 and kept.get("c") == bytes(10)


def test_clear() -> None:
    kept: Recent[str, bytes] = Recent(lambda: 9, 10, len)
    kept.add("a", bytes(10))
    kept.clear()
    assert len(kept) == 0
    kept.add("b", bytes(5))
    kept.add("c", bytes(5))
    assert len(kept) == 2
