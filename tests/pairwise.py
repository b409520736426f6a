"""Rows that contain every pair of values of every two factors, as far as pairs are legal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations, product
from random import Random
from typing import Any

__all__ = ["Pair", "Row", "pairs_of", "pairwise"]

Row = dict[str, Any]
Pair = tuple[tuple[str, Any], tuple[str, Any]]
"""Two factors with a value each, in the order of the factors."""

TRIES, GOOD = 24, 4
"""Rows that are tried for a pair, and legal ones among which the best is taken."""


def pairs_of(row: Row) -> set[Pair]:
    """All pairs that a row covers."""
    return set(combinations(row.items(), 2))


def pairwise(
    factors: Mapping[str, Sequence[Any]], legal: Callable[[Row], bool], decisive: Sequence[str]
) -> tuple[list[Row], list[Pair]]:
    """Rows that cover all legal pairs, and the pairs that no legal row has; always the same.

    Greedy: a row begins with the first pair that is not covered yet and takes for each other
    factor the value with most uncovered pairs. Where no such row is legal, the ``decisive`` factors
    are gone through, all others having their first value.

    Args:
        factors: values by name; the first value is the one that refuses least.
        legal: whether a row may be.
        decisive: factors that decide together whether a row with first values is legal.
    """
    names, random = list(factors), Random(0)
    values = [[(name, v) for v in factors[name]] for name in names]
    open_pairs = {
        pair: None for a, b in combinations(values, 2) for pair in product(a, b)
    }  # a dict, because its order is that of insertion
    rows: list[Row] = []
    impossible: list[Pair] = []
    while open_pairs:
        pair = next(iter(open_pairs))
        found = list(_tries(factors, pair, open_pairs, random, legal))
        if not found:
            found = list(_exhaustive(factors, pair, decisive, legal))[:1]
        if not found:
            impossible.append(pair)
            del open_pairs[pair]
            continue
        best = max(found, key=lambda row: sum(p in open_pairs for p in pairs_of(row)))
        rows.append(best)
        for p in pairs_of(best):
            open_pairs.pop(p, None)
    return rows, impossible


def _tries(
    factors: Mapping[str, Sequence[Any]],
    pair: Pair,
    open_pairs: Mapping[Pair, None],
    random: Random,
    legal: Callable[[Row], bool],
) -> Iterator[Row]:
    names, good = list(factors), 0
    for _ in range(TRIES):
        chosen = dict(pair)
        rest = [n for n in names if n not in chosen]
        random.shuffle(rest)
        for name in rest:
            options = list(factors[name])
            random.shuffle(options)
            chosen[name] = max(options, key=lambda v: _gain(names, chosen, name, v, open_pairs))
        row = {n: chosen[n] for n in names}
        if legal(row):
            yield row
            good += 1
            if good == GOOD:
                return


def _gain(
    names: Sequence[str], chosen: Row, name: str, value: Any, open_pairs: Mapping[Pair, None]
) -> int:
    """Uncovered pairs of a value with those that are chosen already."""
    at = names.index(name)
    ordered = (
        ((name, value), item) if at < names.index(item[0]) else (item, (name, value))
        for item in chosen.items()
    )
    return sum(p in open_pairs for p in ordered)


def _exhaustive(
    factors: Mapping[str, Sequence[Any]],
    pair: Pair,
    decisive: Sequence[str],
    legal: Callable[[Row], bool],
) -> Iterator[Row]:
    fixed = dict(pair)
    free = [n for n in decisive if n not in fixed]
    for values in product(*(factors[n] for n in free)):
        row = {n: v[0] for n, v in factors.items()} | dict(zip(free, values, strict=True)) | fixed
        if legal(row):
            yield {n: row[n] for n in factors}
            return
