"""Why a definition is run as it is, as data and as a text: the route, each choice and refusal."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from wsched.choose.cost import Cost
from wsched.choose.nvfuser_cost import NvfuserCost
from wsched.front.route import CUT, NOBODY, NVFUSER, TORCH, WSCHED, Fate, Part, Refusal
from wsched.importer import MissingOp
from wsched.schedule.matmul.params import MatmulParams

__all__ = ["Choice", "Explanation", "KernelFacts", "PartFacts"]

NO_PREDICTION = "nothing, the cost model describes only what the heuristic can choose"

RUNNERS_UP = 8
"""Ways not taken that the text shows."""

CUT_DOWN = (
    "times are of an H200 cut down to what the machine model pretends to have; "
    'gpu="H200" asks for a whole one'
)
"""What the times of a call on CPU tensors mean."""


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
        tensor_columns: columns of tensor memory that a CTA allocates, 0 where there is none.
        predicted_us: microseconds by the cost model, on an H200 unless another GPU was planned
            for; None for a kernel that it does not
            describe, one that is pipelined or has a CTA for each tile.
        cost: their parts, and what they follow from.
        others: predicted microseconds of the schedules that were not chosen, best first; of a part
            of a definition none is said.
        relation: the load index in terms of the compute loops, one line each.
        params: the parameters, nested; empty of a schedule that was written call by call.
        tuned: the entry of a table that the schedule is from, its ``file``, and the ``gpu`` that it
            was measured on; None if it is chosen by what is predicted, or given.
        schedule: the calls that made it, where there are no parameters.
        counts_us: microseconds that it counts as where ways are compared: as it was measured, or
            predicted; None of a schedule that was given.
        counts: where these are from: ``measured``, ``predicted``, or ``predicted beside what was
            measured`` of the same product.
    """

    problem: str
    sms: int
    kernel: str
    grid: int
    threads: int
    shared_bytes: int
    tensor_columns: int
    predicted_us: float | None
    cost: Cost | None
    others: dict[str, float]
    relation: tuple[str, ...]
    params: dict[str, Any]
    tuned: dict[str, Any] | None = None
    schedule: tuple[str, ...] = ()
    counts_us: float | None = None
    counts: str = "predicted"

    def __str__(self) -> str:
        title, made = "schedule, call by call:", list(self.schedule)
        if not made:
            title = "parameters, under nvFuser's names:"
            made = str(MatmulParams.from_dict(self.params)).splitlines()
        cells = self.tensor_columns
        columns = f", {cells} columns of tensor memory" if cells else ""
        lines = [
            f"{self.problem} on {self.sms} multiprocessors: {self.kernel}",
            f"  {self.grid} CTAs of {self.threads} threads and {self.shared_bytes} bytes of "
            f"shared memory{columns}",
            f"  predicted: {self.cost or NO_PREDICTION}",
            *self._counted,
            "",
            "legal, because the index of the load loop follows from compute's loops:",
            *(f"  {line}" for line in self.relation),
            "",
            title,
            *(f"  {line}" for line in made),
            "",
        ]
        return "\n".join(lines)

    @property
    def _counted(self) -> tuple[str, ...]:
        if self.counts_us is None or self.counts == "predicted":
            return ()
        return (f"  counts as {self.counts_us:.1f} us, {self.counts}",)


@dataclass(frozen=True, slots=True)
class PartFacts:
    """A part of a definition that was cut.

    Args:
        runs: ``wsched``, ``nvfuser`` or ``torch``.
        reads: names of what it reads.
        writes: names of what it makes for others.
        operations: below ``fd.ops``, in order.
        kernel: of wsched's.
        copied: which operands have to be copied for it, and why.
        views: which of its inputs are views, and of what.
        kept: whether it runs once for each state of the constants that it reads.
        sweep: name of the kernel of wsched's that it is without a matmul, and its predicted time.
        into: of what it makes that is written into inputs: what, and which input.
        joined: of a ``cat`` who stores its parts, or why it is a copy.
    """

    runs: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    operations: tuple[str, ...]
    kernel: KernelFacts | None = None
    copied: str = ""
    views: tuple[str, ...] = ()
    kept: bool = False
    sweep: str = ""
    into: tuple[tuple[str, str], ...] = ()
    joined: str = ""

    @staticmethod
    def of(part: Part) -> PartFacts:
        """What a part reads, makes and does; who runs it, and nothing of how."""
        reads = tuple(n.results[0] for n in part.definition.inputs)
        ops = tuple(n.op for n in part.definition.nodes if not n.op.startswith("define_"))
        return PartFacts(part.runs, reads, part.definition.outputs, ops)

    @property
    def counted(self) -> str:
        """Its operations, each kind once."""
        counts = Counter(self.operations)
        return ", ".join(op if n == 1 else f"{n} {op}" for op, n in counts.items())

    @property
    def lines(self) -> tuple[str, ...]:
        """What else is said of it: its kernel, what is a view, copied or kept."""
        made = ""
        if self.kernel is not None:
            facts = self.kernel
            us = facts.predicted_us if facts.counts_us is None else facts.counts_us
            time = "" if us is None else f", {facts.counts} {us:.1f} us"
            made = f"{facts.kernel}, {facts.problem}{time}"
        long = f" while {', '.join(self.reads)} stay as they are" if self.reads else ""
        once = f"once, then kept{long}" * self.kept
        return tuple(filter(None, (made, self.sweep, self.joined, *self.views, self.copied, once)))

    def __str__(self) -> str:
        into = dict(self.into)
        writes = ", ".join(f"{n} (into {into[n]})" if n in into else n for n in self.writes)
        text = f"{self.runs}: {', '.join(self.reads)} -> {writes}: {self.counted}"
        return "\n    ".join((text, *self.lines))


@dataclass(frozen=True, slots=True)
class Explanation:
    """Which way a definition goes, and why.

    Args:
        route: ``wsched``, ``cut``, ``nvfuser`` or ``torch``; ``nobody`` where the one that would
            run it is not installed.
        device: where the inputs are, or the device that was planned for.
        kernel: of the route ``wsched``.
        choices: why the kernel is as it is.
        refusals: the ways and schedules that were not taken, best first.
        nvfuser: what nvFuser's own route is predicted to take; of the routes with kernels only.
        missing: the operations that no kernel of wsched's has; of the other routes only.
        parts: of the route ``cut``, in the order in which they run.
        matmuls: what became of each; of all routes but ``wsched``.
        predicted_us: microseconds of all parts; of the route ``cut`` only.
        installed: what ``wsched.install`` does with such a call, where a GPU is planned for; empty
            elsewhere.
    """

    route: str
    device: str
    kernel: KernelFacts | None
    choices: tuple[Choice, ...]
    refusals: tuple[Refusal, ...]
    nvfuser: NvfuserCost | None = None
    missing: tuple[MissingOp, ...] = ()
    parts: tuple[PartFacts, ...] = ()
    matmuls: tuple[Fate, ...] = ()
    predicted_us: float | None = None
    installed: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain data; the facts of a kernel stand beside the route, None where there is none."""
        plain = asdict(self)
        if self.nvfuser is not None:
            plain["nvfuser"]["us"] = self.nvfuser.us
        facts = plain.pop("kernel") or dict.fromkeys(KernelFacts.__dataclass_fields__)
        if self.predicted_us is None:  # a kernel's own stands among its facts
            del plain["predicted_us"]
        return {"route": plain.pop("route"), "device": plain.pop("device"), **facts, **plain}

    def __str__(self) -> str:
        does = {
            WSCHED: "wsched's kernel",
            CUT: "cut into wsched's kernels and the rest",
            NVFUSER: "nvFuser, because wsched has no kernel for it",
            TORCH: "torch, one operation after the other",
            NOBODY: "nobody here, wsched has no kernel for it",
        }
        lines = [] if self.kernel is None else [str(self.kernel)]
        lines.append(f"route on {self.device}: {does[self.route]}")
        if self.device == "cpu" and (self.kernel is not None or self.parts):
            lines.append(CUT_DOWN)
        if self.predicted_us is not None:
            lines.append(f"all parts: predicted {self.predicted_us:.1f} us")
        if self.nvfuser is not None:
            lines.append(f"nvFuser's route: predicted {self.nvfuser}")
        if self.installed:
            lines.append(f"under wsched.install(): {self.installed}")
        if self.parts:
            lines += ["", "parts, in the order in which they run:"]
            lines += [f"  {at}. {part}" for at, part in enumerate(self.parts, 1)]
        if self.matmuls:
            lines += ["", "matmuls:", *(f"  {fate}" for fate in self.matmuls)]
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
