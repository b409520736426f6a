"""Why a definition is run as it is: the route, every choice and every refusal with its reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from typing import Any

from lowering.ground.errors import ScheduleError, UnsupportedError
from lowering.target.hopper import SHARED_BYTES, TMA_STRIDE_ALIGN
from wsched.choose.cost_model import Cost, cost
from wsched.choose.heuristics import Candidate, candidates, choose_params
from wsched.choose.nvfuser_cost import NvfuserCost, nvfuser_cost
from wsched.choose.problem import Problem
from wsched.choose.route import NVFUSER, TORCH, WSCHED, Refusal
from wsched.choose.tuned.lookup import Hit, lookup
from wsched.doors.fallback import rebuild, unknown_ops
from wsched.front.api import import_fusion, recorded
from wsched.front.own import kernel_of
from wsched.fusion import Fusion
from wsched.run.compiled import CompiledFusion, compile_fusion
from wsched.run.copies import Copy
from wsched.schedule.matmul.limits import BARRIER_BYTES, shared_bytes
from wsched.schedule.matmul.params import MatmulParams
from wsched.schedule.schedule import Schedule

__all__ = [
    "Choice", "Explanation", "KernelFacts", "explain_definition", "explain_given",
    "explain_kernel", "explain_other",
]  # fmt: skip

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
    """

    route: str
    device: str
    kernel: KernelFacts | None
    choices: tuple[Choice, ...]
    refusals: tuple[Refusal, ...]
    nvfuser: NvfuserCost | None = None

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
        return "\n".join([*lines, ""])


def explain_kernel(
    kernel: CompiledFusion,
    problem: Problem,
    device: str,
    needed: tuple[Copy, ...] = (),
    nvfuser: NvfuserCost | None = None,
) -> Explanation:
    """The explanation of a kernel that the heuristic chose for a problem, with its copies."""
    hit = lookup(problem)
    if hit is not None and hit.entry.params.matches(kernel.params):
        return replace(_explain_tuned(kernel, problem, device, hit, needed), nvfuser=nvfuser)
    best, *others = candidates(problem)
    facts = _facts(kernel, problem, best.cost, others)
    refusals = tuple(Refusal(_short(c.params), _behind(c.cost, best.cost)) for c in others)
    why = f"take {best.cost.us:.1f} us, the least of {len(others) + 1} schedules"
    choices = _choices(kernel.params, problem, why, facts.grid, kernel.trials)
    return Explanation(WSCHED, device, facts, choices + _copied(needed), refusals, nvfuser)


def _explain_tuned(
    kernel: CompiledFusion, problem: Problem, device: str, hit: Hit, needed: tuple[Copy, ...]
) -> Explanation:
    """The explanation of a schedule that a table has, beside those that are only predicted."""
    entry = hit.entry
    given = explain_given(kernel, problem, device).kernel
    assert given is not None
    facts = replace(given, tuned=entry.to_dict() | {"file": str(hit.file)})
    others = [c for c in candidates(problem) if not c.params.matches(kernel.params)]
    refusals = tuple(
        Refusal(_short(c.params), f"predicted {c.cost.us:.1f} us; the chosen one was measured")
        for c in others
    )
    choice = "was wrong" if entry.choice_us is None else f"{entry.choice_us:.1f} us"
    tuned = Choice(
        "tuned", _short(kernel.params),
        f"measured {entry.us:.1f} us, the model's choice {choice}, table {hit.file} "
        f"(wsched {entry.wsched}, {entry.date[:10]})",
    )  # fmt: skip
    choices = _choices(
        kernel.params, problem, "are the fastest that was measured", facts.grid, kernel.trials
    )
    return Explanation(WSCHED, device, facts, (tuned, *choices, *_copied(needed)), refusals)


def _copied(needed: tuple[Copy, ...]) -> tuple[Choice, ...]:
    return tuple(
        Choice(c.argument, "copied", f"{c.reason}; the copy reads and writes {c.bytes} bytes")
        for c in needed
    )


def explain_given(kernel: CompiledFusion, problem: Problem, device: str) -> Explanation:
    """The explanation of a kernel whose schedule was given, beside those of the heuristic."""
    given = kernel.made_from
    others = [c for c in candidates(problem) if given is None or not c.params.matches(given)]
    described = given and given.warp_specialized and given.persistent
    us = cost(problem, given) if given and described else None
    facts = _facts(kernel, problem, us, others)
    choice = Choice("schedule", kernel.kernel.name, "written call by call")
    if given is not None:
        choice = Choice("params", _short(given), "given, not chosen by the heuristic")
    return Explanation(WSCHED, device, facts, (choice,), ())


def _facts(
    kernel: CompiledFusion,
    problem: Problem,
    cost: Cost | None,
    others: list[Candidate],
) -> KernelFacts:
    rows, cols = kernel.fusion.result_axes
    sizes = {rows: problem.m, cols: problem.n, "K": problem.k}
    return KernelFacts(
        problem="x".join(str(sizes[axis]) for axis in "MNK"),
        sms=problem.sms,
        kernel=kernel.kernel.name,
        grid=kernel.grid(sizes, problem.sms),
        threads=kernel.kernel.threads,
        shared_bytes=kernel.kernel.shared_bytes,
        predicted_us=None if cost is None else cost.us,
        cost=cost,
        others={_short(c.params): c.cost.us for c in others},
        relation=tuple("".join(map(str, kernel.plan.relations)).splitlines()),
        params={} if kernel.made_from is None else kernel.made_from.to_dict(),
        schedule=tuple(map(str, kernel.fusion.history)) if kernel.made_from is None else (),
    )


def explain_other(route: str, device: str, refusals: tuple[Refusal, ...]) -> Explanation:
    """The explanation of a definition that goes to nvFuser or torch."""
    return Explanation(route, device, None, (), refusals)


def explain_definition(
    definition: Any,
    device: str,
    problem_of: Callable[[Fusion], Problem],
    params: MatmulParams | None = None,
) -> Explanation:
    """The explanation without inputs, for a GPU of compute capability 9.0.

    Args:
        definition: live, or a text; or a schedule.
        device: how to call the GPU.
        problem_of: the problem to plan for, from the fusion.
        params: a schedule in place of the heuristic's; then there is only wsched's kernel.

    Raises:
        UnsupportedError: none of the ways takes it.
        ScheduleError: ``params`` make an illegal schedule.
        InputError: a problem that the definition excludes.
    """
    if isinstance(definition, Schedule):
        return explain_given(kernel_of(definition), problem_of(definition.fusion), device)
    if params is not None:
        fusion = import_fusion(definition)
        return explain_given(compile_fusion(fusion, params), problem_of(fusion), device)
    refusals = []
    try:
        fusion = import_fusion(definition)
        problem = problem_of(fusion)
        kernel = compile_fusion(fusion, choose_params(problem))
        beside = nvfuser_cost(recorded(definition), fusion, problem)
        return explain_kernel(kernel, problem, device, nvfuser=beside)
    except (UnsupportedError, ScheduleError) as e:
        refusals.append(Refusal(WSCHED, str(e)))
    operations = recorded(definition)
    if find_spec("nvfuser_direct") is not None:
        try:
            rebuild(operations)
            return explain_other(NVFUSER, device, tuple(refusals))
        except UnsupportedError as e:
            refusals.append(Refusal(NVFUSER, str(e)))
    else:
        refusals.append(Refusal(NVFUSER, "nvFuser is not installed"))
    if unknown := unknown_ops(operations):
        raise UnsupportedError(
            ", ".join(f"fd.ops.{op}" for op in unknown),
            "what wsched, nvFuser or torch can run",
            "; ".join(f"{r.what}: {r.reason}" for r in refusals),
        )
    return explain_other(TORCH, device, tuple(refusals))


def _behind(cost: Cost, best: Cost) -> str:
    """How much longer a schedule is predicted to take, and what takes it."""
    ratio = cost.us / best.us
    return f"predicted {cost.us:.1f} us, {ratio:.2f} of the chosen one's: {cost.worse(best)}"


def _short(params: MatmulParams) -> str:
    """A name that tells the candidates apart."""
    way = "ping-pong" if params.ping_pong else "cooperative"
    groups = "" if params.warpgroups == 2 else f", warpgroups {params.warpgroups}"
    m, n = params.cluster_dims.m, params.cluster_dims.n
    cluster = f", cluster {m}x{n}" if m * n > 1 else ""
    parts = f", K in {params.splitk_factor} parts" if params.splitk_factor > 1 else ""
    return f"{way} {params.output_tile}{groups}{cluster}{parts}"


def _choices(
    params: MatmulParams, problem: Problem, why: str, grid: int, trials: tuple[str, ...]
) -> tuple[Choice, ...]:
    """Every parameter that the heuristic decides, and why; of the tile ``why`` says it."""
    tile, options = params.output_tile, params.circular_buffer_options
    tiles = -(-problem.m // tile.m) * -(-problem.n // tile.n)
    stage, epilogue = shared_bytes(
        params,
        problem.operand,
        *problem.results,
        inputs=(problem.inputs or ()) if params.loads_epilogue_inputs else (),
        n_major=problem.n_major,
    )
    stages = options.smem_circular_buffer_stage
    used = stages * stage + epilogue + BARRIER_BYTES
    more = used + stage
    found = [
        Choice("tile_sizes", f"{params.tile_sizes.cta_tile}, {params.warpgroups} warpgroups of "
               f"{params.tile_sizes.warp_tile}",
               f"{tiles} tiles of {tile} {why}"),
        Choice("buffering_loop_level", params.buffering_loop_level.name,
               "each warpgroup has tiles of its own: one computes while the other stores"
               if params.ping_pong else "the warpgroups share each tile"
               if params.warpgroups > 1 else "one warpgroup computes each tile"),
        Choice("mma_macro", str(params.mma_macro), "the widest wgmma that the warpgroup's tile "
               "takes, so that shared memory is read least often"),
        Choice("smem_circular_buffer_stage", str(stages),
               f"{stages} stages of {stage} bytes, {epilogue} for the epilogue and "
               f"{BARRIER_BYTES} for barriers take {used} of {SHARED_BYTES} bytes of shared memory"
               + (f", one more would take {more}" if more > SHARED_BYTES
                  else ", more do not hide more")),
        Choice("tiling_strategy", params.tiling_strategy.name,
               f"{grid} CTAs loop over {tiles} tiles" if params.persistent
               else "a CTA for each tile"),
        Choice("splitk_factor", str(params.splitk_factor),
               "each tile is computed by one CTA" if params.splitk_factor == 1 else
               f"{tiles} tiles would leave SMs idle: CTAs share each and add up what they have"),
        Choice("grid_traversal_factor", str(params.grid_traversal_factor),
               "tiles that are visited together share operands in the L2"),
        Choice("programmatic_dependent_launch", str(params.programmatic_dependent_launch),
               "it starts while the kernel in front of it ends"
               if params.programmatic_dependent_launch else
               "CTAs that start together share what they load"),
        Choice("cluster_dims", f"{params.cluster_dims.m}x{params.cluster_dims.n}",
               "CTAs of a cluster share operand tiles by multicast"
               if params.cluster_dims.m * params.cluster_dims.n > 1
               else "each CTA loads its operands itself"),
    ]  # fmt: skip
    found += _store_choices(params, problem)
    if params.batch_invariant:
        why = "K is summed in one fixed order, so that a row's bits do not depend on M"
        found.append(Choice("batch_invariant", "True", why))
    if params.register_pair is not None:
        load, compute = params.register_pair
        tried = f"; compiled: {', '.join(trials)}" if trials else ""
        found.append(
            Choice("num_registers", f"{load}, {compute}",
                   f"loads need few registers; what they give up holds accumulators{tried}")
        )  # fmt: skip
    return tuple(found)


def _store_choices(params: MatmulParams, problem: Problem) -> list[Choice]:
    """Why threads access what TMA accesses as a rule, and why one element at a time."""
    found = []
    if problem.matrices:
        by_tma = params.loads_epilogue_inputs
        why = "TMA loads them ahead of the epilogue" if by_tma else "threads read them: TMA cannot"
        if problem.inputs and not by_tma:
            why = "threads read them: their buffers leave no shared memory for the operands"
        found.append(Choice("epilogue_input_stages", str(params.epilogue_input_stages),
                            f"matrices of the epilogue: {why}"))  # fmt: skip
    if not params.use_smem_epilogue:
        why = "their buffers leave no shared memory for the operands"
        if problem.unaligned is not None:
            row = problem.n * problem.unaligned.bytes
            why = (
                f"rows of {problem.n} {problem.unaligned} elements are {row} bytes, which TMA does "
                f"not store: no multiple of {TMA_STRIDE_ALIGN}"
            )
        found.append(Choice("use_smem_epilogue", "False", f"results from registers: {why}"))
    if params.supported_vec_size.epilogue == 1:
        odd = f"rows of {problem.n} elements, which is odd"
        why = odd if problem.n % 2 else "an input whose rows or base are odd"
        why = f"threads access single elements, not pairs: {why}"
        found.append(Choice("supported_vec_size.epilogue", "1", why))
    return found
