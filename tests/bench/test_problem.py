"""Shapes and definitions."""

from __future__ import annotations

import pytest

from lowering.ground.errors import UnsupportedError
from wsched.bench.problem import (
    ANCHORS,
    LAYOUTS,
    Problem,
    Shape,
    definition_text,
    parse_shapes,
)
from wsched.importer import build_fusion, record_text


def test_parse() -> None:
    assert parse_shapes(" 8x16x24,4096x3584x512,8x16x24") == (
        Shape(8, 16, 24),
        Shape(4096, 3584, 512),
    )
    assert parse_shapes("anchors,64x64x64") == (*ANCHORS, Shape(64, 64, 64))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("8x8", "the shape '8x8' is not supported; supported: MxNxK, for example 4096x3584x512"),
        (
            "8x0x8",
            "the shape '8x0x8' is not supported; supported: MxNxK, for example 4096x3584x512",
        ),
        (" , ", "an empty list of shapes is not supported; supported: MxNxK,... or anchors"),
    ],
)
def test_refused(text: str, message: str) -> None:
    with pytest.raises(UnsupportedError) as error:
        parse_shapes(text)
    assert str(error.value) == message


def test_work() -> None:
    shape = Shape(512, 1024, 2048)
    assert (shape.flops, shape.bytes) == (2**31, 2 * (2**20 + 2**21 + 2**19))
    assert shape.tflops(1e6) == pytest.approx(2**31 / 1e12, rel=1e-12)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_definition(layout: str, golden: object) -> None:
    assert definition_text(Problem(Shape(8, 8, 8), "fp16", layout)) == golden


def test_definition_is_what_wsched_reads() -> None:
    fusion = build_fusion(record_text(definition_text(Problem(Shape(8, 8, 8)))))
    assert [str(tv.dtype) for tv in fusion.inputs] == ["BFloat16", "BFloat16"]
