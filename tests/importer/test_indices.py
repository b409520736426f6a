"""Indices of ``index_select``: vectors, whether the text has them so or broadcast."""

from __future__ import annotations

from typing import Any

import pytest

from wsched.importer import Definition, Ref, definition_of, record_text

X = "fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.Half)"


def record(*lines: str) -> Definition:
    return record_text("\n".join(("def f(fd: FusionDefinition):", *(f"    {s}" for s in lines))))


@pytest.mark.parametrize(("rank", "dim"), [(1, 0), (2, 0), (2, 1), (3, -1)])
def test_what_nvfuser_prints(rank: int, dim: int) -> None:
    """An index broadcast to the table's dimensions, whether it was given so or as a vector."""
    nvf = pytest.importorskip("nvfuser_direct")

    def define(fd: Any, spread: bool) -> None:
        x = fd.define_tensor(shape=[-1] * rank, contiguity=True, dtype=nvf.DataType.Float)
        i = fd.define_tensor(shape=[-1], contiguity=True, dtype=nvf.DataType.Int)
        new = [at != dim % rank for at in range(rank)]
        i = fd.ops.broadcast(i, new) if spread else i
        fd.add_output(fd.ops.index_select(x, i, dim=dim))

    texts = []
    for spread in (False, True):
        with nvf.FusionDefinition() as fd:
            define(fd, spread)
        texts.append(repr(fd))
        found = definition_of(fd)
        assert found == record_text(repr(fd))
        assert [n.op for n in found.nodes] == ["define_tensor"] * 2 + ["index_select"]
        x, i = (n.results[0] for n in found.inputs)
        assert found.nodes[-1].operands == (Ref(x), Ref(i))
    assert texts[0] == texts[1] and ("broadcast" in texts[0]) == (rank > 1)


def test_an_index_that_others_read_is_broadcast_for_them() -> None:
    found = record(
        f"x = {X}", "i = fd.define_tensor(shape=[-1], dtype=DataType.Int)",
        "b = fd.ops.broadcast(i, is_broadcast_dim=[True, False])",
        "y = fd.ops.index_select(x, b, dim=1)", "z = fd.ops.add(y, b)", "fd.add_output(z)",
    )  # fmt: skip
    assert [n.op for n in found.nodes[2:]] == ["broadcast", "index_select", "add"]
    assert found.nodes[3].operands == (Ref("x"), Ref("i"))
    assert found.nodes[4].operands == (Ref("y"), Ref("b"))


@pytest.mark.parametrize("new", ["[False, False]", "[True, True]"])
def test_an_index_of_another_rank_stays(new: str) -> None:
    rank = new.count("False")
    found = record(
        f"x = {X}", f"i = fd.define_tensor(shape={[-1] * rank}, dtype=DataType.Int)",
        f"b = fd.ops.broadcast(i, is_broadcast_dim={new})",
        "y = fd.ops.index_select(x, b, dim=1)", "fd.add_output(y)",
    )  # fmt: skip
    assert found.nodes[-1].operands == (Ref("x"), Ref("b"))
