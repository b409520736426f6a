"""Kernels and pages that the tests of this folder share; each is made once."""

from __future__ import annotations

from functools import cache

from lowering.target.targets import named
from tests.front.cut.features import FEATURES
from tests.schedules import SCHEDULES, definition
from wsched.explore.data import Book, Page
from wsched.explore.model import Asked, book_of
from wsched.front.known import import_fusion
from wsched.front.sizes import Extents, kernel_for
from wsched.run.compiled import CompiledFusion, compile_fusion
from wsched.schedule.matmul.params import MatmulParams

__all__ = ["book", "compiled", "cut_book", "page"]


@cache
def compiled(name: str) -> CompiledFusion:
    """The kernel of a linear with one of the schedules, or for one of the other targets."""
    if name in SCHEDULES:
        return compile_fusion(import_fusion(definition()), SCHEDULES[name])
    return kernel_for(definition(), Extents(128, 128, 128), target=named(name))


@cache
def book(shape: str = "128x128x128", params: MatmulParams | None = None) -> Book:
    """A linear, planned for an H200."""
    text = definition()
    return book_of(Asked(text, text, Extents.parse(shape), 132, "an H200", params))


def page(shape: str = "128x128x128", params: MatmulParams | None = None) -> Page:
    """The page of its kernel."""
    (one,) = book(shape, params).kernels
    return one


@cache
def cut_book(name: str = "gated") -> Book:
    """A definition that is several kernels, planned for an H200."""
    text = FEATURES[name].text
    return book_of(Asked(text, text, None, 132, "an H200"))
