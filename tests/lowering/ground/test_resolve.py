"""Values that depend on one another are found once, in order, without recursion."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from lowering.ground.resolve import resolve


def test_a_chain_longer_than_the_stack() -> None:
    def length(n: int) -> Generator[int, int, int]:
        return 0 if n == 0 else 1 + (yield n - 1)

    found: dict[int, int] = {}
    assert resolve(100_000, length, found) == 100_000
    assert len(found) == 100_001


def test_each_is_found_once_in_the_order_in_which_it_is_asked_for() -> None:
    """Asked for twice by each, the values would be found 2 ** 60 times."""
    started: list[str] = []
    reads = {"c": "ab", "a": "0", "b": "0a", "0": ""}

    def text(key: str) -> Generator[str, str, str]:
        started.append(key)
        parts = []
        for other in reads[key]:
            parts.append((yield other))
        return f"{key}({''.join(parts)})"

    assert resolve("c", text, {}) == "c(a(0())b(0()a(0())))"
    assert started == ["c", "a", "0", "b"]

    def doubled(n: int) -> Generator[int, int, int]:
        return 1 if n == 0 else (yield n - 1) + (yield n - 1)

    assert resolve(60, doubled, {}) == 2**60


def test_what_is_known_is_not_found_again_and_errors_pass() -> None:
    def steps(key: str) -> Generator[str, int, int]:
        if key == "broken":
            raise KeyError(key)
        return (yield "broken") if key == "reader" else (yield "known")

    found = {"known": 3}
    assert resolve("other", steps, found) == 3
    assert resolve("known", steps, found) == 3
    with pytest.raises(KeyError, match="broken"):
        resolve("reader", steps, found)
    assert found == {"known": 3, "other": 3}
