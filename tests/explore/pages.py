"""Kernels and pages that the tests of this folder share; each is made once."""

from __future__ import annotations

from functools import cache

from tests.schedules import SCHEDULES, definition
from wsched.explore.data import Page
from wsched.explore.model import Asked, page_of
from wsched.front.known import import_fusion
from wsched.front.sizes import Extents
from wsched.run.compiled import CompiledFusion, compile_fusion
from wsched.schedule.matmul.params import MatmulParams

__all__ = ["compiled", "page"]


@cache
def compiled(name: str) -> CompiledFusion:
    """The kernel of a linear with one of the schedules."""
    return compile_fusion(import_fusion(definition()), SCHEDULES[name])


@cache
def page(shape: str = "128x128x128", params: MatmulParams | None = None) -> Page:
    """The page of a linear, planned for an H200."""
    text = definition()
    return page_of(Asked(text, text, Extents.parse(shape), 132, "an H200", params))
