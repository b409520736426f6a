"""The table of operations: complete, current, and in step with the kernel's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from lowering.kernel.pointwise import OPS
from wsched.importer import missing_ops, record_text
from wsched.importer.composite import COMPOSITES
from wsched.importer.ops import ALIASES, COMPOSITE, MISSING, STRUCTURE, ops_text

PAGE = Path(__file__).resolve().parents[2] / "design" / "pointwise-ops.md"


def test_the_page_is_current() -> None:
    assert PAGE.read_text() == ops_text(), "run `python tools/write_ops.py`"


def test_every_operation_of_nvfuser_is_in_the_table_once() -> None:
    nvfuser = pytest.importorskip("nvfuser_direct", reason="nvFuser is not installed")
    with nvfuser.FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1], contiguity=[True], dtype=nvfuser.DataType.Float)
        fd.add_output(fd.ops.neg(x))
        offered = {name for name in dir(fd.ops) if not name.startswith("_")}
    pointwise = set(OPS) | set(ALIASES) | set(COMPOSITE)
    assert offered == pointwise | set(STRUCTURE) | set(MISSING)
    assert not pointwise & (set(STRUCTURE) | set(MISSING)) and not set(STRUCTURE) & set(MISSING)


def test_every_composite_is_built() -> None:
    assert set(COMPOSITE) == set(COMPOSITES)


def test_what_is_said_of_operations_that_there_are_not() -> None:
    """Each once, with its lines; near names too."""
    calls = ["lineer(t0, t0)", "topk(t0, 2)", *["quack(t0)"] * 9, "lineer(t0, t0)"]
    lines = [f"t{n} = fd.ops.{call}" for n, call in enumerate(calls, 1)]
    tensor = "t0 = fd.define_tensor(shape=[-1, -1], dtype=DataType.BFloat16)"
    body = "\n".join(f"    {line}" for line in (tensor, *lines))
    near, known, nobodys = map(str, missing_ops(record_text(f"def f(fd):\n{body}\n")))
    assert near == "fd.ops.lineer (lines 3, 14): unknown; did you mean fd.ops.linear?"
    assert known == f"fd.ops.topk (line 4): {MISSING['topk']}"
    assert nobodys == "fd.ops.quack (lines 5, 6, 7, 8, 9 and 4 more): unknown"
