"""How explanations are made: of a kernel that was chosen, of one that was given, of another way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

from lowering.ground.errors import ScheduleError, UnsupportedError
from wsched.choose.copy_cost import Copy
from wsched.choose.cost_model import Cost, cost
from wsched.choose.heuristics import Candidate, candidates, choose_params
from wsched.choose.nvfuser_cost import NvfuserCost, nvfuser_cost
from wsched.choose.problem import Gpu, Problem
from wsched.choose.tuned.lookup import Hit, lookup
from wsched.doors.fallback import rebuild, unknown_ops
from wsched.front.choices import choices_of
from wsched.front.explanation import Choice, Explanation, KernelFacts
from wsched.front.known import import_fusion, recorded
from wsched.front.own import kernel_of
from wsched.front.problems import problem_of
from wsched.front.route import NVFUSER, TORCH, WSCHED, Refusal
from wsched.fusion import Fusion
from wsched.fusion.names import in_order
from wsched.importer import MissingOp, missing_ops, record_text
from wsched.run.compiled import CompiledFusion, compile_fusion
from wsched.run.copies import copies
from wsched.run.layout import laid_out
from wsched.schedule.matmul.params import MatmulParams
from wsched.schedule.schedule import Schedule

__all__ = ["explain_definition", "explain_given", "explain_kernel", "explain_on", "explain_other"]


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
    choices = choices_of(kernel, problem, why, facts.grid)
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
    choices = choices_of(kernel, problem, "are the fastest that was measured", facts.grid)
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
    sizes = problem.extents(kernel.fusion)
    return KernelFacts(
        problem="x".join(str(sizes[name]) for name in in_order(sizes)),
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


def explain_other(
    route: str, device: str, refusals: tuple[Refusal, ...], missing: tuple[MissingOp, ...] = ()
) -> Explanation:
    """The explanation of a definition that goes to nvFuser or torch."""
    return Explanation(route, device, None, (), refusals, missing=missing)


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
    return _explain_others(definition, device, refusals)


def explain_on(
    gpu: Gpu, definition: Any, inputs: Sequence[Any], *, batch_invariant: bool = False
) -> Explanation:
    """The explanation for inputs as if they were on a GPU that need not be there.

    Raises:
        InputError: the tensors do not fit the definition.
        UnsupportedError: none of the ways takes it.
    """

    def problem_on(fusion: Fusion) -> Problem:
        here = problem_of(fusion, inputs, batch_invariant=batch_invariant)
        return replace(here, sms=gpu.sms, l2_bytes=gpu.l2_bytes, gpu=gpu.name)

    if isinstance(definition, Schedule):
        kernel = kernel_of(definition)
        return explain_given(kernel, problem_on(kernel.fusion), str(gpu))
    refusals = []
    try:
        fusion = laid_out(import_fusion(definition), inputs)
        problem = problem_on(fusion)
        kernel, needed = compile_fusion(fusion, choose_params(problem)), copies(fusion, inputs)
        beside = nvfuser_cost(recorded(definition), fusion, problem, needed)
        return explain_kernel(kernel, problem, str(gpu), needed, beside)
    except (UnsupportedError, ScheduleError) as e:
        if batch_invariant:  # there is no other way then
            raise
        refusals.append(Refusal(WSCHED, str(e)))
    return _explain_others(definition, str(gpu), refusals)


def _explain_others(definition: Any, device: str, refusals: list[Refusal]) -> Explanation:
    """What nvFuser or torch does with a definition that wsched has no kernel for.

    Raises:
        UnsupportedError: neither takes it, or neither is installed.
    """
    read = record_text(definition) if isinstance(definition, str) else recorded(definition)
    missing = missing_ops(read)
    try:
        operations = recorded(definition)
    except UnsupportedError as e:  # a text that leaves something open: nobody can run it
        raise UnsupportedError(e.what, e.supported, _listed(missing) or e.hint) from None
    if find_spec("nvfuser_direct") is None:
        refusals.append(Refusal(NVFUSER, "nvFuser is not installed"))
    else:
        try:
            rebuild(operations)
            return explain_other(NVFUSER, device, tuple(refusals), missing)
        except UnsupportedError as e:
            refusals.append(Refusal(NVFUSER, str(e)))
    what = "this definition"
    if find_spec("torch") is None:
        refusals.append(Refusal(TORCH, "torch is not installed"))
    elif unknown := unknown_ops(operations):
        what = ", ".join(f"fd.ops.{op}" for op in unknown)
    else:
        return explain_other(TORCH, device, tuple(refusals), missing)
    reasons = "; ".join(f"{r.what}: {r.reason}" for r in refusals)
    hint = ". ".join(filter(None, (reasons, _listed(missing))))
    raise UnsupportedError(what, "what wsched, nvFuser or torch can run", hint)


def _listed(missing: tuple[MissingOp, ...]) -> str:
    """Operations that wsched does not have, in one sentence; empty if there is none."""
    return f"wsched has no {'; '.join(map(str, missing))}" if missing else ""


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
