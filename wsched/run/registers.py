"""The registers of a kernel, chosen by compiling: the first pair whose kernel is clean.

Only where the parameters leave the pair open (``num_registers="auto"``). The first candidate is
nearly always clean, and its compilation is the one that the kernel needs anyway. What is compiled
goes through the disk cache, so that another process chooses again without compiling.
"""

from __future__ import annotations

from dataclasses import replace

from lowering.cuda.nvrtc import CompileError
from lowering.cuda.resources import Resources, complaints
from lowering.ground.errors import UnsupportedError
from lowering.target.target import Target
from wsched.fusion import Fusion
from wsched.run.compiled import CompiledFusion, compile_fusion
from wsched.run.together import together
from wsched.schedule.matmul.limits import register_candidates, require_legal
from wsched.schedule.matmul.params import MatmulParams

__all__ = ["compile_clean"]

_CLEAN = "clean"


def compile_clean(
    fusion: Fusion, params: MatmulParams, target: Target | None = None
) -> CompiledFusion:
    """The kernel with the first register pair that compiles clean; needs NVRTC, but no GPU.

    Where none does, it is the one that complains and spills least: it is right, only slower than
    it might be, and ``trials`` says so. A pair that was given is taken, compiling nothing.

    Raises:
        ScheduleError: the parameters make an illegal schedule.
        UnsupportedError: there is no lowering for them; ptxas finds too few registers with every
            pair; there is no NVRTC.
    """
    target = target or params.mma_macro.target
    if params.siblings:
        return _clean_together(fusion, params, target)
    if params.num_registers != "auto":
        return compile_fusion(fusion, params, target)
    require_legal(fusion, params, target)
    trials: list[str] = []
    made: list[tuple[tuple[int, ...], CompiledFusion]] = []
    for pair in register_candidates(fusion, params, target):
        kernel = compile_fusion(fusion, replace(params, num_registers=pair), target)
        try:
            found = kernel.resources
        except CompileError as e:
            _require_too_few(e)
            trials.append(f"{pair}: too few registers for ptxas")
            continue
        trials.append(f"{pair}: {_outcome(found)}")
        made.append((_cost(found), kernel))
        if found.clean:
            break
    if not made:
        raise UnsupportedError(
            f"a kernel that ptxas finds too few registers for ({'; '.join(trials)})",
            "a smaller tile or a smaller epilogue",
        )
    best = min(made, key=lambda m: m[0])[1]
    return replace(best, trials=tuple(trials))


def _clean_together(fusion: Fusion, params: MatmulParams, target: Target) -> CompiledFusion:
    """The same of several kernels: with the first pair of each, where all that a call launches
    compiles clean. Else each is chosen alone, and they are launched so if one grid of several
    complains or spills more than the worst of them.
    """

    def first(one: MatmulParams) -> CompiledFusion:
        made = compile_fusion(fusion, one, target)
        told = (f"{made.params.num_registers}: {_CLEAN}",) if one.num_registers == "auto" else ()
        return replace(made, trials=told)

    made = together(fusion, params, first)
    if all(p.num_registers != "auto" for p in (params, *params.siblings)):
        return made
    if (worst := _worst(made)) is not None and not any(worst):
        return made
    made = together(fusion, params, lambda one: compile_clean(fusion, one, target))
    alone, worst = replace(made, stacks=False), _worst(made)
    return made if worst is not None and worst <= (_worst(alone) or worst) else alone


def _worst(made: CompiledFusion) -> tuple[int, ...] | None:
    """What the worst costs of all that a call launches; None of one with too few registers."""
    try:
        return max(_cost(grid.resources) for grid in made.grids)
    except CompileError as e:
        _require_too_few(e)
        return None


def _require_too_few(e: CompileError) -> None:
    """Raise what is not for want of registers."""
    if not any(c.startswith("C76") for c in complaints(e.log)):
        raise e


def _cost(found: Resources) -> tuple[int, ...]:
    """What is worse is larger: serialized wgmmas cost most, then bytes that go through memory."""
    serialized = any(w.startswith("C75") for w in found.warnings)
    return serialized, found.spilled, found.stack, len(found.warnings)


def _outcome(found: Resources) -> str:
    if found.clean:
        return _CLEAN
    coded = [w.split(":")[0] for w in found.warnings if w.startswith("C")]
    return ", ".join([f"{found.spilled} bytes spilled, {found.stack} of stack", *coded])
