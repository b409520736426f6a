"""The loop nests, and the kernel after each pass, with links from the one to the other."""

from __future__ import annotations

from dataclasses import dataclass

from passes.pipeline import passes_of, steps
from wsched.explore.data import Nest, NestLine, Stage
from wsched.explore.links import KernelText, lines_of
from wsched.run.on_device import OnDevice
from wsched.schedule.loops import nest_lines
from wsched.schedule.plan import Plan
from wsched.schedule.proof.nest import Leaf, leaves

__all__ = ["Texts", "texts_of"]


@dataclass(frozen=True, slots=True)
class Texts:
    """The texts of a page: what ``wsched.explore.data.Page`` has under these names."""

    nests: tuple[Nest, ...]
    stages: tuple[Stage, ...]
    table: tuple[str, ...]
    texts: tuple[tuple[int, ...], ...]


def texts_of(compiled: OnDevice) -> Texts:
    """The texts of a kernel. The passes run again."""
    plan = compiled.plan
    about = {"lower": "One loop nest for each part of the schedule, at the level of tiles"}
    about |= {run.__name__: _sentence(run.__doc__) for run in passes_of(compiled.tile_level)}
    table: dict[str, int] = {}
    texts: dict[tuple[int, ...], int] = {}
    stages, kernels = list[Stage](), list[KernelText]()
    for step in steps(compiled.tile_level, compiled.options):
        text = KernelText.of(step.kernel, plan.fusion)
        numbers = tuple(table.setdefault(line, len(table)) for line in text.lines)
        if numbers not in texts:
            texts[numbers] = len(texts)
            kernels.append(text)
        stages.append(Stage(step.name, about[step.name], texts[numbers]))
    return Texts(_nests(plan, kernels), tuple(stages), tuple(table), tuple(texts))


def _nests(plan: Plan, kernels: list[KernelText]) -> tuple[Nest, ...]:
    found = []
    for at, part in enumerate(plan.parts):
        lines = (
            NestLine(
                depth,
                text,
                "" if isinstance(node, Leaf) else node.domain.label,
                tuple(t.name for t in leaves(node)),
                tuple(lines_of(node, kernel, plan.fusion) for kernel in kernels),
            )
            for depth, node, text in nest_lines(plan.fusion, plan.graph, part)
        )
        found.append(Nest(at, tuple(lines)))
    return tuple(n for n in found if n.lines)


def _sentence(doc: str | None) -> str:
    """The first sentence of a docstring, without marks."""
    paragraph = " ".join((doc or "").strip().partition("\n\n")[0].split())
    return paragraph.partition(". ")[0].rstrip(".").replace("``", "")
