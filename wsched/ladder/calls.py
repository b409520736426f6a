"""The calls of a schedule for a reader: loops by their labels, tensors by what they are.

``Schedule`` keeps calls one a tensor, with positions; a line here has all tensors for which the
same was done, as it was written: ``s[a, b].split("K", 64)``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from wsched.fusion import Fusion, LoadStoreOp, LoadStoreOpType, PrimitiveCall, TensorView
from wsched.schedule.schedule import Schedule

__all__ = ["lines_of"]


@dataclass(frozen=True, slots=True)
class _Line:
    """A call without its tensor: ``before`` the loops that it is for, then these, then the rest."""

    tensor: str
    before: str
    loops: tuple[str, ...]
    behind: str


def lines_of(start: Schedule, calls: Sequence[PrimitiveCall]) -> tuple[str, ...]:
    """The calls that schedule a matmul, in order.

    Args:
        start: a schedule without them, of one result and no operand that is computed; they are
            made on it.
        calls: all of them.
    """
    found: list[_Line] = []
    for call in calls:
        found.append(_line(start, call))
        getattr(start, call.op)(*call.args, **dict(call.kwargs))
    return tuple(_texts(_joined(found), _words(start)))


def _words(schedule: Schedule) -> dict[str, str]:
    """A word for each tensor that calls name."""
    fusion = schedule.fusion
    words = dict(zip((t.name for t in fusion.loads), ("a", "b"), strict=True))
    for t, w in tuple(words.items())[:2]:
        words |= {p.name: w.upper() for p in fusion.producers(t)}
    (result,) = schedule.outputs
    words |= {schedule.acc: "acc", result: "d"}
    words |= {t.name: "read" for t in fusion.tensors if _reads_sums(fusion, t)}
    between = [t for t in fusion.made_from([result]) if t in fusion.in_order]
    made = [t for t in between if t not in words and fusion.tensor(t).transforms]
    return words | dict(zip(made, ("held", "box"), strict=False))


def _reads_sums(fusion: Fusion, t: TensorView) -> bool:
    e = fusion.definition(t.name)
    return isinstance(e, LoadStoreOp) and e.op is LoadStoreOpType.LdTMem


def _line(schedule: Schedule, call: PrimitiveCall) -> _Line:
    """A call in front of which the schedule is."""
    if not call.args:
        return _Line("", f"{call.op}(", (), f"{_options(call.kwargs)})")
    tensor, *rest = call.args
    labels = [d.label for d in schedule.tensor(tensor).loop]
    loops: tuple[str, ...] = ()
    match call.op:
        case "split" | "parallelize":
            loops, rest = (labels[rest[0]],), rest[1:]
        case "merge":
            loops, rest = tuple(labels[at] for at in rest), []
        case "inline_at":
            loops, rest = (labels[rest[0] - 1],), rest[1:]
        case "reorder":
            moved = dict(rest[0])
            left = iter([x for at, x in enumerate(labels) if at not in moved])
            to = {new: labels[old] for old, new in moved.items()}
            loops, rest = tuple(to.get(at) or next(left) for at in range(len(labels))), []
    return _Line(tensor, f"{call.op}(", loops, _ending(bool(loops), rest, call.kwargs))


def _ending(loops: bool, rest: Sequence[Any], options: Sequence[tuple[str, Any]]) -> str:
    words = [*map(str, rest), *([_options(options)] if options else [])]
    return ", ".join([*([""] if loops and words else []), *words]) + ")"


def _options(options: Sequence[tuple[str, Any]]) -> str:
    return ", ".join(f"{n}={v!r}" for n, v in options)


def _joined(lines: Sequence[_Line]) -> Iterator[_Line]:
    """Neighbours that parallelize loops of one tensor alike as one."""
    for (tensor, before, behind), found in groupby(lines, lambda x: (x.tensor, x.before, x.behind)):
        if before == "parallelize(":
            yield _Line(tensor, before, tuple(x for line in found for x in line.loops), behind)
        else:
            yield from found


def _texts(lines: Iterator[_Line], words: dict[str, str]) -> Iterator[str]:
    """A line for neighbours that do the same."""
    for (before, loops, behind), found in groupby(lines, lambda x: (x.before, x.loops, x.behind)):
        tensors = [words[x.tensor] for x in found if x.tensor]
        several = before in ("reorder(", "parallelize(") and len(loops) > 1
        named = ", ".join(f'"{x}"' for x in loops)
        of = f"s[{', '.join(tensors)}]" if tensors else "s"
        yield f"{of}.{before}{f'[{named}]' if several else named}{behind}"
