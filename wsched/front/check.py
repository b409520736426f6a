"""Whether a schedule is legal and has a kernel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lowering.ground.errors import ScheduleError, UnsupportedError
from wsched.front.own import kernel_of
from wsched.schedule.parts import titles
from wsched.schedule.plan import Plan
from wsched.schedule.schedule import Schedule

__all__ = ["Check", "check"]


@dataclass(frozen=True, slots=True)
class Check:
    """What became of a schedule that was to be made into a kernel.

    Args:
        error: why it is illegal, or why there is no kernel for it; None if there is one.
        relation: which load step an iteration of compute's loops needs, one line each; empty if it
            is illegal.
        kernel: name of the kernel; empty if there is none.
        threads: per CTA; 0 without a kernel.
        shared_bytes: dynamic shared memory of a CTA; 0 without a kernel.
    """

    error: ScheduleError | UnsupportedError | None
    relation: tuple[str, ...] = ()
    kernel: str = ""
    threads: int = 0
    shared_bytes: int = 0

    @property
    def legal(self) -> bool:
        """Whether the schedule is legal; it may still have no kernel, which ``error`` then says."""
        return not isinstance(self.error, ScheduleError)

    def to_dict(self) -> dict[str, Any]:
        """Plain data; of an error the parts of its text beside the whole."""
        e, error = self.error, None
        if isinstance(e, ScheduleError):
            error = {
                "rule": e.rule, "wrote": e.wrote, "why": e.why, "legal": list(e.legal),
                "where": e.where, "text": str(e),
            }  # fmt: skip
        elif e is not None:
            error = {"what": e.what, "supported": e.supported, "hint": e.hint, "text": str(e)}
        return {
            "legal": self.legal,
            "error": error,
            "relation": list(self.relation),
            "kernel": self.kernel,
            "threads": self.threads,
            "shared_bytes": self.shared_bytes,
        }

    def __str__(self) -> str:
        if not self.legal:
            return f"{self.error}\n"
        lines = ["legal, because the index of the load loop follows from compute's loops:"]
        lines += [f"  {line}" for line in self.relation]
        if self.error is not None:
            lines.append(f"but there is no kernel for it: {self.error}")
        else:
            lines.append(
                f"{self.kernel}: CTAs of {self.threads} threads and {self.shared_bytes} bytes of "
                "shared memory"
            )
        return "\n".join([*lines, ""])


def _relations(plan: Plan) -> Iterator[str]:
    """What was proved of each ring; where several parts compute, also between which it is."""
    names = [title.partition(" (")[0] for title in titles(plan.fusion, plan.parts)]
    for edge in plan.edges:
        lines = str(edge.relation).splitlines()
        if len(plan.computing) > 1:
            yield f"{edge.name}, from {names[edge.producer]} to {names[edge.consumer]}:"
            lines = [f"  {line}" for line in lines]
        yield from lines


def check(schedule: Schedule) -> Check:
    """Prove a schedule, then make its kernel; an error is returned, not raised."""
    try:
        plan = schedule.plan()
        relation = tuple(_relations(plan))
        relation += tuple(f"assumed: {u}" for u in plan.assumptions)
    except ScheduleError as e:
        return Check(e)
    try:
        kernel = kernel_of(schedule).kernel
    except (ScheduleError, UnsupportedError) as e:
        return Check(e, relation if isinstance(e, UnsupportedError) else ())
    return Check(None, relation, kernel.name, kernel.threads, kernel.shared_bytes)
