"""Sizes at which what a kernel does too much would be too little.

That all of a dimension is added up, or written, says nothing of larger ones where more than all of
it is: steps that something else counts are enough at each size that is smaller than that. So where
whole units behind the end are multiplied, or stored, further on than any size goes that is followed
anyway, the parameter is followed once more, by one element larger than that, beside the same
others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from lowering.proof.sizes import lists_of

__all__ = ["Beyond"]


@dataclass
class Beyond:
    """What was done behind the end of parameters.

    Args:
        units: what parameters are divided by.
        ctas: that share a tile, or a sum: each may have an idle unit.
        largest: up to where each parameter is followed anyway.
        seen: those that are followed beyond that.
    """

    units: Mapping[str, int]
    ctas: int
    largest: Mapping[str, int]
    seen: set[str] = field(default_factory=set)

    def sizes(
        self, sizes: Mapping[str, int], ends: Mapping[str, int]
    ) -> Iterator[tuple[str, dict[str, int]]]:
        """Parameters with sizes that a launch says are to be followed, which has gone up to
        ``ends``; each once. That of a list is the sum of its parts.
        """
        for name in sorted(ends.keys() - self.seen - lists_of(self.units).keys()):
            end, idle = ends[name], ends[name] - sizes[name]
            if end >= self.largest[name] and idle >= self.units[name] * self.ctas:
                self.seen.add(name)
                yield name, {**sizes, name: end + 1}
