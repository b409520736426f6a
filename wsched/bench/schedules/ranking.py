"""The schedules that the heuristic ranks for a problem on a device."""

from __future__ import annotations

from dataclasses import dataclass, replace

from wsched.bench.problem import Shape
from wsched.choose.heuristics import choose_params, ranked
from wsched.choose.learned.order import predicted
from wsched.choose.problem import Problem
from wsched.front.known import import_fusion
from wsched.front.sizes import Extents
from wsched.fusion import Fusion
from wsched.run.kernel_name import kernel_name
from wsched.schedule.matmul.early import launched
from wsched.schedule.matmul.params import L2Promotions, MatmulParams

__all__ = [
    "TWINS", "Ranked", "label", "problem_for", "ranking", "ranking_of", "shortlist", "taken_first",
]  # fmt: skip

TWINS = 6
"""Schedules of a shortlist that are also measured launched in the other way."""


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
    return [Ranked(label(fusion, p), us, p) for us, p in ranked(problem)]


def taken_first(definition: str, problem: Problem) -> list[Ranked]:
    """Return the same, but what ``wsched.compile`` takes first, from a table where one has it."""
    found, taken = ranking_of(definition, problem), choose_params(problem)
    others = [r for r in found if not taken.matches(r.params)]
    name = label(import_fusion(definition), taken)
    return [Ranked(name, predicted(problem, taken).us, taken), *others]


def shortlist(definition: str, problem: Problem, top: int) -> list[Ranked]:
    """Return the first ``top`` (0: all), and the first few launched in the other way, too.

    The ranking has each schedule once, launched as the model prefers; that preference is what it
    misjudges most at small sizes (256x768x768: 3.8 us instead of 2.9).
    """
    found = ranking_of(definition, problem)[: top or None]
    fusion = import_fusion(definition)
    for r in found[:TWINS]:
        twin = launched(r.params, not r.params.programmatic_dependent_launch)
        us = predicted(problem, twin).us
        found.append(Ranked(label(fusion, twin), us, twin))
    return found


def label(fusion: Fusion, params: MatmulParams) -> str:
    """Return the words of a kernel's name from its tile on, and of how it is launched.

    Schedules that differ have different ones.
    """
    words = kernel_name(fusion, params).split("_")
    tile = next(i for i, word in enumerate(words) if word[0].isdigit())
    promotions = params.l2_promotions
    told = [] if promotions == L2Promotions() else [f"a{promotions.a.value}b{promotions.b.value}"]
    return "_".join([*words[tile:], *told])
