"""Why a definition is run as it is, as data and as a text: the route, each choice and refusal."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from wsched.choose.cost_model import Cost
from wsched.choose.nvfuser_cost import NvfuserCost
from wsched.front.route import NVFUSER, TORCH, WSCHED, Refusal
from wsched.importer import MissingOp
from wsched.schedule.matmul.params import MatmulParams

__all__ = ["Choice", "Explanation", "KernelFacts"]

NO_PREDICTION = "nothing, the cost model describes only what the heuristic can choose"

RUNNERS_UP = 8
"""Ways not taken that the text shows."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A parameter under nvFuser's name, its value, and why it has it."""

    name: str
    value: str
    reason: str


@dataclass(frozen=True, slots=True)
class KernelFacts:
    """What wsched's kernel is, for a problem.

    Args:
        problem: the extents, ``MxNxK``.
        sms: multiprocessors that it was planned for.
        kernel: its name.
        grid: CTAs.
        threads: per CTA.
        shared_bytes: dynamic shared memory of a CTA.
        predicted_us: microseconds on an H200, by the cost model; None for a kernel that it does not
            describe, one that is pipelined or has a CTA for each tile.
        cost: their parts, and what they follow from.
        others: predicted microseconds of the schedules that were not chosen, best first.
        relation: the load index in terms of the compute loops, one line each.
        params: the parameters, nested; empty of a schedule that was written call by call.
        tuned: the entry of a table that the schedule is from, and its ``file``; None if it is
            chosen by what is predicted, or given.
        schedule: the calls that made it, where there are no parameters.
    """

    problem: str
    sms: int
    kernel: str
    grid: int
    threads: int
    shared_bytes: int
    predicted_us: float | None
    cost: Cost | None
    others: dict[str, float]
    relation: tuple[str, ...]
    params: dict[str, Any]
    tuned: dict[str, Any] | None = None
    schedule: tuple[str, ...] = ()

    def __str__(self) -> str:
        title, made = "schedule, call by call:", list(self.schedule)
        if not made:
            title = "parameters, under nvFuser's names:"
            made = str(MatmulParams.from_dict(self.params)).splitlines()
        lines = [
            f"{self.problem} on {self.sms} multiprocessors: {self.kernel}",
            f"  {self.grid} CTAs of {self.threads} threads and {self.shared_bytes} bytes of "
            "shared memory",
            f"  predicted: {self.cost or NO_PREDICTION}",
            "",
            "legal, because the index of the load loop follows from compute's loops:",
            *(f"  {line}" for line in self.relation),
            "",
            title,
            *(f"  {line}" for line in made),
            "",
        ]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Explanation:
    """Which way a definition goes, and why.

    Args:
        route: ``wsched``, ``nvfuser`` or ``torch``.
        device: where the inputs are, or the device that was planned for.
        kernel: of the route ``wsched``.
        choices: why the kernel is as it is.
        refusals: the ways and schedules that were not taken, best first.
        nvfuser: what nvFuser's own route is predicted to take; of the route ``wsched`` only.
        missing: the operations that no kernel of wsched's has; of the other routes only.
    """

    route: str
    device: str
    kernel: KernelFacts | None
    choices: tuple[Choice, ...]
    refusals: tuple[Refusal, ...]
    nvfuser: NvfuserCost | None = None
    missing: tuple[MissingOp, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain data; the facts of a kernel stand beside the route, None where there is none."""
        plain = asdict(self)
        if self.nvfuser is not None:
            plain["nvfuser"]["us"] = self.nvfuser.us
        facts = plain.pop("kernel") or dict.fromkeys(KernelFacts.__dataclass_fields__)
        return {"route": plain.pop("route"), "device": plain.pop("device"), **facts, **plain}

    def __str__(self) -> str:
        does = {
            WSCHED: "wsched's kernel",
            NVFUSER: "nvFuser, because wsched has no kernel for it",
            TORCH: "torch, one operation after the other",
        }
        lines = [] if self.kernel is None else [str(self.kernel)]
        lines.append(f"route on {self.device}: {does[self.route]}")
        if self.nvfuser is not None:
            lines.append(f"nvFuser's route: predicted {self.nvfuser}")
        if self.choices:
            lines += ["", "chosen:"]
            lines += [f"  {c.name} = {c.value}: {c.reason}" for c in self.choices]
        if self.refusals:
            shown = self.refusals[:RUNNERS_UP]
            lines += ["", "not taken:", *(f"  {r.what}: {r.reason}" for r in shown)]
            if more := self.refusals[RUNNERS_UP:]:
                lines.append(f"  and {len(more)} more (all of them: --json)")
        if self.missing:
            lines += ["", "operations that wsched has not:", *(f"  {m}" for m in self.missing)]
        return "\n".join([*lines, ""])
