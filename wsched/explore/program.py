"""A definition that was cut, as a drawing: its parts at places, and what flows between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from wsched.explore.data import Flow, Program, Step
from wsched.front.cut.part import plain_name
from wsched.front.explanation import Explanation
from wsched.front.route import WSCHED, Part

__all__ = ["program_of"]


def program_of(
    parts: Sequence[Part], found: Explanation, kernels: Sequence[int], definition: str
) -> Program:
    """The drawing of a cut.

    Args:
        parts: in the order in which they run.
        found: the explanation of the cut, which has the same parts.
        kernels: of each part the number of its kernel; -1 where there is none to look at.
        definition: the text of the whole.
    """
    flows = _flows(parts)
    rows = _rows(len(parts), flows)
    filled: Counter[int] = Counter()
    steps = []
    for facts, kernel, row in zip(found.parts, kernels, rows, strict=True):
        steps.append(
            Step(facts.runs, facts.counted, facts.lines, facts.reads, facts.writes, kernel,
                 filled[row], row)
        )  # fmt: skip
        filled[row] += 1
    return Program(tuple(steps), flows, _facts(found), definition)


def _flows(parts: Sequence[Part]) -> tuple[Flow, ...]:
    """Of each tensor that a part reads, or looks at, the part that makes it."""
    made = {plain_name(n): at for at, part in enumerate(parts) for n in part.definition.outputs}
    found = dict[Flow, None]()
    for at, part in enumerate(parts):
        seen = {look.name: look.source for look in part.looks}
        for name in (n.results[0] for n in part.definition.inputs):
            tensor = plain_name(seen.get(name, name))
            if tensor in made:
                found[Flow(made[tensor], at, tensor)] = None
    return tuple(found)


def _rows(count: int, flows: Sequence[Flow]) -> list[int]:
    """How many parts lie above each at most; what makes a tensor runs in front of what reads it."""
    found = [0] * count
    for flow in sorted(flows, key=lambda flow: flow.target):
        found[flow.target] = max(found[flow.target], found[flow.source] + 1)
    return found


def _facts(found: Explanation) -> tuple[tuple[str, str], ...]:
    """Names and values for the head."""
    own = sum(part.runs == WSCHED for part in found.parts)
    rows = [
        ("parts", f"{len(found.parts)}, of them {own} with a kernel of wsched's"),
        ("planned for", found.device),
        *((f"not {refusal.what}", refusal.reason) for refusal in found.refusals),
    ]
    if found.predicted_us is not None:
        rows.append(("predicted", f"{found.predicted_us:.1f} us for all parts"))
    if found.nvfuser is not None:
        rows.append(("nvFuser's route", f"predicted {found.nvfuser}"))
    return tuple(rows)
