"""The kernels that a command looks at: that of a definition, or those of its parts where it is cut.

Parts and their numbers are those of ``wsched explain``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from lowering.ground.errors import UnsupportedError
from wsched.cli.asked import AskedKernel, asked_kernel
from wsched.cli.options import asked_extents, extents_of, has_several, named, read_definition_file
from wsched.front.explain import PlannedCut, planned_cut
from wsched.front.explanation import PartFacts
from wsched.front.known import import_fusion
from wsched.front.schedule import Schedule
from wsched.front.sizes import Extents, extents_for
from wsched.importer import Definition
from wsched.run.compiled import CompiledFusion

__all__ = ["Looked", "PartNumber", "looked_at"]

PartNumber = Annotated[
    int | None,
    typer.Option(
        "--part",
        metavar="N",
        min=1,
        help="Of a definition that is cut, the part: as wsched explain numbers them.",
    ),
]


@dataclass(frozen=True, slots=True)
class Looked:
    """A kernel that is looked at.

    Args:
        asked: what it is planned with.
        definition: what it is of; of a part, its operations.
        extents: the problem.
        part: its number; 0 of a definition that is one kernel.
        title: of a part what it reads, makes and does; empty of a definition that is one kernel.
        planned: the kernel where it has been made.
    """

    asked: AskedKernel
    definition: str | Definition | Schedule
    extents: Extents
    part: int = 0
    title: str = ""
    planned: CompiledFusion | None = None

    @property
    def kernel(self) -> CompiledFusion:
        """The kernel; raises as :func:`~wsched.front.sizes.kernel_for`."""
        return self.planned or self.asked.kernel(self.definition, self.extents)

    @property
    def planned_for(self) -> str:
        """What it was planned for, as a line; empty of a schedule, which is what it is."""
        if isinstance(self.definition, Schedule):
            return ""
        return f"  planned for {self.asked.sms} multiprocessors\n"


def looked_at(
    file: Path,
    shape: str | None,
    sms: int | None,
    params: str | None,
    target: str | None,
    part: int | None = None,
) -> tuple[Looked, ...]:
    """The kernels of a file's definition; arguments are a command's options.

    A definition of one kernel has that. One that is cut has its parts', or the one of ``part``: a
    shape and parameters are for one kernel, so they need a number there.

    Raises:
        BadParameter: an option that says nothing of such a definition; no such part.
        Exit: no kernel, or one that cannot be planned so; the reason has been printed.
    """
    size, definition = asked_extents(shape), read_definition_file(file)
    asked = asked_kernel(definition, params, target, sms)
    with named(file):
        cut = _cut(definition, asked)
    if cut is None or isinstance(definition, Schedule):
        if part is not None:
            raise typer.BadParameter("the definition is one kernel", param_hint="--part")
        return (Looked(asked, definition, extents_of(file, definition, size)),)
    found = {one.part: one for one in _parts(cut, asked)}
    if part is None:
        for option, given in (("--shape", size), ("--params", params)):
            if given is not None:
                numbers = " or ".join(map(str, found))
                why = f"is for one kernel, this definition has several parts: --part {numbers}"
                raise typer.BadParameter(why, param_hint=option)
        return tuple(found.values())
    if part not in found:
        raise typer.BadParameter(_no_kernel(cut, part, found), param_hint="--part")
    one = found[part]
    if size is None and params is None:
        return (one,)
    with named(file):
        sized = size is not None
        extents = extents_for(import_fusion(one.definition), size) if sized else one.extents
    return (Looked(asked, one.definition, extents, part, one.title),)


def _cut(definition: str | Schedule, asked: AskedKernel) -> PlannedCut | None:
    """How a definition of several kernels is cut; None where it is one, or none at all.

    Raises:
        UnsupportedError: it cannot be read.
    """
    if not has_several(definition):
        return None
    try:
        cut = planned_cut(definition, asked.sms, asked.planned)
    except UnsupportedError:
        return None  # why it is no kernel is told by who looks for one
    return cut if any(part.kernel is not None for part in cut.parts) else None


def _parts(cut: PlannedCut, asked: AskedKernel) -> Iterator[Looked]:
    """The parts of a cut that have a kernel with a matmul."""
    for number, part in enumerate(cut.parts, 1):
        if part.kernel is not None and part.problem is not None:
            extents = Extents.of_problem(part.problem, part.kernel.fusion)
            title = str(PartFacts.of(part))
            yield Looked(asked, part.definition, extents, number, title, part.kernel)


def _no_kernel(cut: PlannedCut, number: int, found: Collection[int]) -> str:
    """Why there is nothing to look at of a part."""
    have = f"those with a kernel of a matmul: {', '.join(map(str, found))}"
    if number > len(cut.parts):
        return f"the definition has {len(cut.parts)} parts; {have}"
    return f"part {number} is {PartFacts.of(cut.parts[number - 1])}; {have}"
