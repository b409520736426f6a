"""How explanations of one kernel are made: of one that was chosen, of one that was given."""

from __future__ import annotations

from dataclasses import replace

from wsched.choose.copy_cost import Copy
from wsched.choose.cost import Cost
from wsched.choose.heuristics import Candidate, candidates
from wsched.choose.learned.order import predicted
from wsched.choose.nvfuser_cost import NvfuserCost
from wsched.choose.price import price
from wsched.choose.problem import Problem
from wsched.choose.thread_loads import copied_us
from wsched.choose.tuned.lookup import Hit, lookup
from wsched.front.choices import choices_of
from wsched.front.explanation import Choice, Explanation, KernelFacts
from wsched.front.route import WSCHED, Refusal
from wsched.fusion.names import HEADS, blocks_of, in_order
from wsched.run.compiled import CompiledFusion
from wsched.run.counts import require_extents
from wsched.schedule.entries import with_sums
from wsched.schedule.matmul.params import MatmulParams

__all__ = ["explain_given", "explain_kernel", "facts_of_part"]


def explain_kernel(
    kernel: CompiledFusion,
    problem: Problem,
    device: str,
    needed: tuple[Copy, ...] = (),
    nvfuser: NvfuserCost | None = None,
) -> Explanation:
    """The explanation of a kernel that the heuristic chose for a problem, with its copies."""
    found = _explain_chosen(kernel, problem, device, needed)
    facts = None if found.kernel is None else _counted(found.kernel, kernel, problem)
    return replace(found, kernel=facts, nvfuser=nvfuser)


def facts_of_part(kernel: CompiledFusion, problem: Problem) -> KernelFacts:
    """What is said of a kernel that the heuristic chose for a part of a definition.

    Schedules that were not chosen are not among it: of many parts they took longer to be priced
    than all that had been chosen.
    """
    facts = _facts(kernel, problem, predicted(problem, kernel.params), [])
    hit = _hit(kernel, problem)
    if hit is not None:
        facts = replace(facts, tuned=_tuned(hit))
    return _counted(facts, kernel, problem)


def _counted(facts: KernelFacts, kernel: CompiledFusion, problem: Problem) -> KernelFacts:
    """With the time that counts where kernels are chosen between, of the schedule that it is of."""
    counted = price(problem)
    if not counted.params.matches(kernel.params):
        return facts
    return replace(facts, counts_us=counted.us, counts=counted.by)


def _hit(kernel: CompiledFusion, problem: Problem) -> Hit | None:
    """The entry of a table that a kernel's schedule is from; None of another one."""
    hit = lookup(problem)
    return hit if hit is not None and hit.entry.params.matches(kernel.params) else None


def _tuned(hit: Hit) -> dict[str, object]:
    """An entry of a table, and of which."""
    return hit.entry.to_dict() | {"file": str(hit.file), "gpu": hit.gpu}


def _explain_chosen(
    kernel: CompiledFusion, problem: Problem, device: str, needed: tuple[Copy, ...]
) -> Explanation:
    hit = _hit(kernel, problem)
    if hit is not None:
        return _explain_tuned(kernel, problem, device, hit, needed)
    if kernel.by_threads:
        return _explain_by_threads(kernel, problem, device, needed)
    best, *others = candidates(problem)
    facts = _facts(kernel, problem, best.cost, others)
    refusals = tuple(Refusal(_short(c.params), _behind(c.cost, best.cost)) for c in others)
    guess = "" if best.cost.measured else ", by data sheets"
    why = f"take {best.cost.us:.1f} us{guess}, the least of {len(others) + 1} schedules"
    choices = choices_of(kernel, problem, why, facts.grid)
    return Explanation(WSCHED, device, facts, choices + _copied(needed), refusals)


def _explain_by_threads(
    kernel: CompiledFusion, problem: Problem, device: str, needed: tuple[Copy, ...]
) -> Explanation:
    """The explanation of a kernel whose threads load operands, beside those by TMA on copies."""
    mine, others = predicted(problem, kernel.params), list(candidates(problem))
    facts = _facts(kernel, problem, mine, others)
    behind = copied_us(problem)
    refusals = tuple(
        Refusal(_short(c.params), f"predicted {c.cost.us:.1f} us behind copies of {behind:.1f} us")
        for c in others
    )
    why = f"take {mine.us:.1f} us without copies of what threads load"
    choices = choices_of(kernel, problem, why, facts.grid)
    return Explanation(WSCHED, device, facts, choices + _copied(needed), refusals)


def _explain_tuned(
    kernel: CompiledFusion, problem: Problem, device: str, hit: Hit, needed: tuple[Copy, ...]
) -> Explanation:
    """The explanation of a schedule that a table has, beside those that are only predicted."""
    entry = hit.entry
    given = explain_given(kernel, problem, device).kernel
    assert given is not None
    facts = replace(given, tuned=_tuned(hit))
    others = [c for c in candidates(problem) if not c.params.matches(kernel.params)]
    refusals = tuple(
        Refusal(_short(c.params), f"predicted {c.cost.us:.1f} us; the chosen one was measured")
        for c in others
    )
    choice = "was wrong" if entry.choice_us is None else f"{entry.choice_us:.1f} us"
    sister = (
        f"; warning: measured on {hit.gpu}, not on this GPU: wsched tune measures here"
        if hit.of_sister
        else ""
    )
    tuned = Choice(
        "tuned", _short(kernel.params),
        f"measured {entry.us:.1f} us, the model's choice {choice}, table {hit.file} "
        f"(wsched {entry.wsched}, {entry.date[:10]}){sister}",
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
    us = predicted(problem, given) if given and described else None
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
    """What is said of a kernel; raises UnsupportedError for sizes that a launch refuses."""
    fusion = kernel.fusion
    sizes = problem.extents(fusion)
    own = {name for names in fusion.lists.values() for name in names}
    own |= {HEADS} if sizes.get(HEADS) == 1 else set()
    own |= {name for name in sizes if blocks_of(name) is not None}
    text = "x".join(str(sizes[name]) for name in in_order(sizes) if name not in own)
    sizes = with_sums(fusion, sizes)
    require_extents(sizes)
    ctas = sum(g.ctas_of_all(sizes, problem.sms) for g in kernel.grids)
    return KernelFacts(
        problem=text,
        sms=problem.sms,
        kernel=", ".join(g.name for g in kernel.grids),
        grid=ctas,
        threads=kernel.kernel.threads,
        shared_bytes=max(k.kernel.shared_bytes for k in kernel.launched),
        tensor_columns=kernel.kernel.tensor_columns,
        predicted_us=None if cost is None else cost.us,
        cost=cost,
        others={_short(c.params): c.cost.us for c in others},
        relation=tuple("".join(map(str, kernel.plan.relations)).splitlines()),
        params={} if kernel.made_from is None else kernel.made_from.to_dict(),
        schedule=tuple(map(str, kernel.fusion.history)) if kernel.made_from is None else (),
    )


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
    exchanged = ", operands exchanged" if params.exchange_operands else ""
    threads = ", operands loaded by threads" if params.thread_loads else ""
    columns, buffers = params.epilogue_columns, params.epilogue_stages
    chunks = f", chunks of {columns}" if columns else ""
    apart = f", {buffers} buffers" if buffers > 2 else ""
    more = "".join(f"; with {_short(p)}" for p in params.siblings)
    of_all = f"{cluster}{parts}{exchanged}{threads}{chunks}{apart}{more}"
    return f"{way} {params.output_tile}{groups}{of_all}"
