"""Which parts of sums a counter tells of: those that who raises it has stored since the last time.

Who adds a part has waited at a counter that tells of that very part. The order that is followed is
as good as any here: a counter that is awaited is as high as the number that is waited for, so all
raises that there are have been made.
"""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Told"]

Group = tuple[int, int]
"""A CTA and the number of a warpgroup in it."""

Element = tuple[str, int]
"""One of an array: a counter, or a slot of a workspace."""


@dataclass
class Told:
    """Slots on their way from warpgroup to warpgroup of a grid.

    Args:
        stored: by each warpgroup, which has not told of them.
        raised: for each raise of a counter since it was zero the slots that it tells of.
        known: to each warpgroup, which has not added them.
    """

    stored: dict[Group, set[Element]] = field(default_factory=dict)
    raised: dict[Element, list[set[Element]]] = field(default_factory=dict)
    known: dict[Group, set[Element]] = field(default_factory=dict)

    def store(self, by: Group, slot: Element) -> None:
        """Somebody has stored a part."""
        self.stored.setdefault(by, set()).add(slot)

    def tell(self, by: Group, counter: Element) -> None:
        """Somebody has raised a counter."""
        self.raised.setdefault(counter, []).append(self.stored.pop(by, set()))

    def clear(self, counter: Element) -> None:
        """A counter is set back."""
        self.raised.pop(counter, None)

    def wait(self, by: Group, counter: Element, value: int) -> str:
        """Somebody has waited until a counter was so high. What is wrong; empty if nothing is."""
        raised = self.raised.get(counter, [])
        slots = {slot for each in raised for slot in each}
        self.known.setdefault(by, set()).update(slots)
        if slots and len(raised) > value:
            return f"{_text(counter)} is raised {len(raised)} times, awaited is {value}"
        return ""

    def add(self, by: Group, slot: Element) -> str:
        """Somebody adds a part. What is wrong; empty if nothing is."""
        known = self.known.get(by, set())
        if slot not in known:
            return f"{_text(slot)} is added, and no counter that was awaited tells of it"
        known.remove(slot)
        return ""


def _text(element: Element) -> str:
    name, index = element
    return f"{name}[{index}]"
