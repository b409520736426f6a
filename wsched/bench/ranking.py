"""The schedules that the heuristic ranks for a problem on a device."""

from __future__ import annotations

from dataclasses import dataclass, replace

from wsched.api import import_fusion
from wsched.bench.problem import Shape
from wsched.heuristics import ranked
from wsched.inspect import Extents
from wsched.kernel_name import kernel_name
from wsched.problem import Problem
from wsched.schedule.params import MatmulParams

__all__ = ["Ranked", "problem_for", "ranking", "ranking_of"]


@dataclass(frozen=True, slots=True)
class Ranked:
    """A schedule of the ranking.

    Args:
        name: of its kernel, without operation and types; schedules that differ have different ones.
        us: predicted microseconds.
        params: the schedule.
    """

    name: str
    us: float
    params: MatmulParams


def problem_for(
    definition: str, shape: Shape, sms: int, l2_bytes: int | None = None, gpu: str | None = None
) -> Problem:
    """Return what ``wsched.compile`` plans for: a definition with 16-byte aligned tensors.

    Args:
        definition: text of the fusion.
        shape: its sizes.
        sms: multiprocessors of the device.
        l2_bytes: its L2 cache; None for the heuristic's default.
        gpu: its name; None for the heuristic's default.
    """
    fusion = import_fusion(definition)
    problem = Extents(shape.m, shape.n, shape.k).problem(fusion, sms)
    if l2_bytes is not None:
        problem = replace(problem, l2_bytes=l2_bytes)
    return problem if gpu is None else replace(problem, gpu=gpu)


def ranking(definition: str, shape: Shape, sms: int, l2_bytes: int | None = None) -> list[Ranked]:
    """Return every schedule for a definition with 16-byte aligned tensors, best first.

    The first one is what ``wsched.compile`` takes, unless a table has another. Arguments as for
    :func:`problem_for`.
    """
    return ranking_of(definition, problem_for(definition, shape, sms, l2_bytes))


def ranking_of(definition: str, problem: Problem) -> list[Ranked]:
    """Return the same for a problem that is planned for already."""
    fusion = import_fusion(definition)
    return [Ranked(_short(kernel_name(fusion, p)), us, p) for us, p in ranked(problem)]


def _short(name: str) -> str:
    """The words of a kernel's name from its tile on."""
    words = name.split("_")
    tile = next(i for i, word in enumerate(words) if word[0].isdigit())
    return "_".join(words[tile:])
