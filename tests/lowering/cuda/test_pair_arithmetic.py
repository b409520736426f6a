"""Arithmetic on two elements of 16 bits at once: which registers the text names."""

from __future__ import annotations

import re
from itertools import product

import pytest

from lowering.cuda.emit import emit_kernel
from tests.lowering.cuda.test_pointwise import kernel


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
@pytest.mark.parametrize(("shape", "second"), [
    ("128x32", "b[{at}]"), ("1x32", "b[{group}]"), ("128x1", "__byte_perm(b[{block}], 0, {half})"),
    ("1x1", "__byte_perm(b[0], 0, 0x1010)"), ("8.0", "{number}"),
])  # fmt: skip
def test_registers_of_pairs(dtype: str, shape: str, second: str) -> None:
    """Two neighbours of a row are a register of the result and of what has as many columns; what
    all columns share is in both halves of one.
    """
    given = f"frag.fill 1.0\nb: frag<{dtype}, {shape}> = frag.fill 2.0"
    given, arg = ("frag.fill 1.0", shape) if shape == "8.0" else (given, "b")
    whole = f"frag<{dtype}, 128x32>"
    text = emit_kernel(kernel(f"a: {whole} = {given}\nd: {whole} = frag.pointwise sub, a, {arg}"))
    assert f"sub.{dtype}x2 %0, %1, %2;" in text
    lines = re.findall(rf"d\[(.*)\] = sub_{dtype}x2\(a\[(.*?)\], (.*)\);", text)
    assert len(lines) == 4
    found = set()
    places = zip(lines, product(range(2), repeat=2), strict=True)
    for ((out, first, other), (block, row)), r in product(places, range(4)):
        at, env = 8 * block + 2 * r + row, {"r": r}
        assert eval(out, {}, env) == eval(first, {}, env) == at
        if index := re.search(r"\[(.*)\]", other):
            other = other.replace(index[1], str(eval(index[1], {}, env)))
        half = ("0x1010", "0x3232")[row]
        number = {"bf16": "0x41004100u", "f16": "0x48004800u"}[dtype]
        assert other == second.format(at=at, group=r, block=block, half=half, number=number)
        found.add(at)
    assert found == set(range(16))
