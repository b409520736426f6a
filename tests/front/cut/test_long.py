"""Definitions whose operations read one value twice: there are 2 ** 60 ways to the first."""

from __future__ import annotations

import pytest

from tests.front.cut.features import Feature, sizes_of
from wsched.front.cut.choose import choose
from wsched.front.cut.segments import Cutter
from wsched.importer import record_text

LENGTH = 60
CHAIN = "\n".join(f"v{n + 1} = fd.ops.add(v{n}, v{n})" for n in range(LENGTH))
WIDE = "dtype=DataType.Float"
NARROW = "dtype=DataType.BFloat16"

CHAINS = {
    "behind a kernel": f"""
        y = fd.ops.linear(t0, t1)
        v0 = fd.ops.cast(y, {WIDE})
        {CHAIN}
        o = fd.ops.cast(v{LENGTH}, {NARROW})
        fd.add_output(o)
    """,
    "in front of one": f"""
        v0 = fd.ops.cast(t0, {WIDE})
        {CHAIN}
        o = fd.ops.cast(v{LENGTH}, {NARROW})
        y = fd.ops.linear(o, t1)
        fd.add_output(y)
        fd.add_output(o)
    """,
    "in front of a view": f"""
        y = fd.ops.linear(t0, t1)
        v0 = fd.ops.cast(y, {WIDE})
        {CHAIN}
        c = fd.ops.cast(v{LENGTH}, {NARROW})
        a = fd.ops.reshape(c, new_shape=[6, 8, 4, 4])
        p = fd.ops.permute(a, dims=[0, 2, 1, 3])
        q = fd.ops.reshape(p, new_shape=[24, 8, 4])
        fd.add_output(q)
    """,
}  # fmt: skip


@pytest.mark.parametrize("rows", [(48,), (6, 8), (2, 3, 8)], ids=str)
@pytest.mark.parametrize("name", CHAINS)
def test_each_operation_is_looked_at_a_few_times(name: str, rows: tuple[int, ...]) -> None:
    cutter = Cutter(record_text(Feature(CHAINS[name], ((*rows, 32), (16, 32)), 1, 1).text))
    found = choose(cutter, sizes_of(cutter), may_leave=False).cut.segments
    assert sum(n.op == "add" for s in found for n in s.definition.nodes) >= LENGTH
    assert any(s.matmul for s in found)
