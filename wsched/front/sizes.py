"""A problem by its sizes alone, without tensors: its extents and its kernel."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from lowering.target.ptx import TMA_STRIDE_ALIGN
from lowering.target.target import Target
from lowering.target.targets import DEFAULT as HERE
from wsched.choose.gpus import gpu_of
from wsched.choose.heuristics import choose_params
from wsched.choose.problem import Problem, dense_widths
from wsched.front.chosen import chosen_kernel, own_choice
from wsched.front.known import import_fusion
from wsched.front.own import kernel_of
from wsched.front.schedule import Schedule, is_schedule_text
from wsched.front.targets import refuse_choices, require_target
from wsched.fusion import Fusion
from wsched.fusion.names import BATCH, EXTENTS, HEADS, TOKENS, blocks_of
from wsched.importer.input_error import InputError
from wsched.run.compiled import CompiledFusion, compile_fusion
from wsched.run.counts import require_extents
from wsched.run.cpu import MULTIPROCESSORS
from wsched.schedule.matmul.epilogue_inputs import matrix_inputs
from wsched.schedule.matmul.params import MatmulParams
from wsched.schedule.matmul.scaled import numbers_of_blocks

__all__ = [
    "DEFAULT", "Extents", "extents_for", "kernel_for", "read_definition",
    "schedule_for",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Extents:
    """Sizes of a problem, written ``MxNxK``, ``BxMxNxK`` of a batch of B, or ``BxHxMxNxK``.

    Args:
        m: rows of the result.
        n: its columns.
        k: what is summed over.
        batch: number of such products.
        heads: where batches have two dimensions the extent of the inner one; ``batch`` is that of
            the outer one.
        own: extents of tensors that stand side by side, by name, where they are known.
    """

    m: int
    n: int
    k: int
    batch: int = 1
    heads: int = 1
    own: tuple[tuple[str, int], ...] = ()

    @staticmethod
    def parse(text: str) -> Extents:
        """Read ``256x512x64``, or ``8x256x512x64`` of a batch of 8, or ``8x4x256x512x64``.

        Raises:
            ValueError: not three to five non-negative integers.
        """
        parts = text.lower().split("x")
        if not 3 <= len(parts) <= 5 or not all(p.isascii() and p.isdigit() for p in parts):
            raise ValueError(
                f"{text!r} is no problem size; write MxNxK, for example 256x512x64, BxMxNxK or "
                "BxHxMxNxK"
            )
        *several, m, n, k = map(int, parts)
        batch, heads, *_ = (*several, 1, 1)
        return Extents(m, n, k, batch, heads)

    @staticmethod
    def of_problem(problem: Problem, fusion: Fusion) -> Extents:
        """Those of a fusion that a problem is of, of tensors side by side too."""
        sizes = problem.extents(fusion)
        batch, heads, m, n, k = (sizes.get(name, 1) for name in EXTENTS)
        own = tuple((x, sizes[x]) for names in fusion.lists.values() for x in names)
        return Extents(m, n, k, batch, heads, own)

    def of(self, axis: str) -> int:
        """Size of an extent by its name, or of a dimension of size ``1``."""
        if (blocks := blocks_of(axis)) is not None:
            return -(-self.of(blocks[0]) // blocks[1])
        sizes = zip(EXTENTS, (self.batch, self.heads, self.m, self.n, self.k), strict=True)
        return dict(sizes, **{"1": 1, TOKENS: self.m})[axis]

    def named(self, fusion: Fusion) -> dict[str, int]:
        """All extents of a fusion by their names. Of tensors side by side those that the definition
        fixes have these, the others share what is left equally; N is the sum of theirs.
        """
        found = {name: self.of(name) for name in (*EXTENTS, "1")}
        tokens = [b.sizes[0] for b in fusion.outputs if b.added is not None]
        if tokens:
            found[TOKENS] = next((n for n in tokens if n is not None), self.of(TOKENS))
        found |= numbers_of_blocks(fusion, found)
        for axis, names in fusion.lists.items():
            known = {
                extent: size
                for b in (*fusion.inputs, *fusion.outputs)
                for extent, size in zip(b.extents, b.sizes, strict=True)
                if extent in names and size is not None
            } | {name: size for name, size in self.own if name in names}
            left = max(found[axis] - sum(known.values()), 0)
            for at, name in enumerate(open_ := [n for n in names if n not in known]):
                known[name] = left * (at + 1) // len(open_) - left * at // len(open_)
            found |= known
            found[axis] = sum(known.values())
        return found

    def problem(self, fusion: Fusion, sms: int = MULTIPROCESSORS, target: Target = HERE) -> Problem:
        """The heuristic's question for these extents, on a GPU of so many multiprocessors.

        Raises:
            UnsupportedError: a size that no kernel takes.
        """
        extents = self.named(fusion)
        require_extents(extents)
        columns = fusion.result_axes[-1]
        rows = [extents[name] for name in fusion.lists.get(columns, (columns,))]
        types = tuple(fusion.tensor(name).dtype for name in matrix_inputs(fusion))
        loaded = all(n * t.bytes % TMA_STRIDE_ALIGN == 0 for t in types for n in rows)
        inputs = types if loaded else None
        problem = Problem.of(fusion, extents, sms, inputs).on(replace(gpu_of(target), sms=sms))
        return problem.with_threads(fusion, dense_widths(fusion, extents))

    def __str__(self) -> str:
        several = (self.batch, self.heads) if self.heads != 1 else (self.batch,)
        batch = "" if several == (1,) else "".join(f"{n}x" for n in several)
        return f"{batch}{self.m}x{self.n}x{self.k}"


DEFAULT = Extents(256, 256, 512)
"""Sizes of what neither the definition nor the user fixes: fast on the machine model."""


def extents_for(fusion: Fusion, asked: Extents | None = None) -> Extents:
    """The extents to look at: those asked for, else those that the definition fixes.

    Raises:
        InputError: the definition fixes a size that is not the one asked for, or has no batch.
    """
    fixed = {
        axis: size
        for b in (*fusion.inputs, *fusion.outputs)
        for axis, size in zip(b.extents, b.sizes, strict=True)
        if size is not None and axis not in ("1", TOKENS)
    }
    for axis, names in fusion.lists.items():
        each = [fixed.pop(name, None) for name in names]
        if None not in each:
            fixed[axis] = sum(n for n in each if n is not None)
    batch, heads, m, n, k = (fixed.get(name, DEFAULT.of(name)) for name in EXTENTS)
    found = asked or Extents(m, n, k, batch, heads)
    if found.batch != 1 and BATCH not in fusion.result_axes:
        text = f"a batch of {found.batch} in {found}, the definition has no batch dimension"
        raise InputError(text, "shape", f"{BATCH} {found.batch}", f"{BATCH} 1")
    if found.heads != 1 and HEADS not in fusion.result_axes:
        text = f"batches of {found.heads} in {found}, the definition has no second batch dimension"
        raise InputError(text, "shape", f"{HEADS} {found.heads}", f"{HEADS} 1")
    for axis, size in fixed.items():
        if found.of(axis) != size:
            raise InputError(
                f"{axis} is {found.of(axis)} in {found}, the definition says {size}",
                "shape", f"{axis} {found.of(axis)}", f"{axis} {size}",
            )  # fmt: skip
    return found


def kernel_for(
    definition: Any,
    extents: Extents,
    sms: int = MULTIPROCESSORS,
    params: MatmulParams | None = None,
    target: Target | None = None,
) -> CompiledFusion:
    """The kernel of a schedule, or that a definition gets for a problem; needs no torch, no GPU.

    Raises:
        InputError: parameters or a target beside a schedule; parameters for another target.
        ScheduleError: ``params`` make an illegal schedule.
    """
    if isinstance(definition, Schedule):
        refuse_choices(params, target)
        return kernel_of(definition)
    fusion = import_fusion(definition)
    if params is None:
        return chosen_kernel(fusion, extents.problem(fusion, sms, target or HERE))
    require_target(params, target)
    return compile_fusion(fusion, params)


def schedule_for(
    definition: Any,
    extents: Extents,
    sms: int = MULTIPROCESSORS,
    params: MatmulParams | None = None,
    target: Target | None = None,
) -> Schedule:
    """The schedule that a definition gets for a problem, call by call; a schedule as it is."""
    if isinstance(definition, Schedule):
        refuse_choices(params, target)
        return definition
    if params is None:
        fusion = import_fusion(definition)
        params = choose_params(extents.problem(fusion, sms, target or HERE))
        with own_choice(fusion, params):
            return Schedule.of(definition, params)
    require_target(params, target)
    return Schedule.of(definition, params)


def read_definition(text: str) -> str | Schedule:
    """A definition's text as it is, that of a schedule as the schedule.

    Raises:
        ScheduleError, UnsupportedError: as :meth:`wsched.front.schedule.Schedule.parse`.
    """
    return Schedule.parse(text) if is_schedule_text(text) else text
