"""Definitions as sweeps: terms, places, and what is refused."""

from __future__ import annotations

import pytest

from lowering.ground.errors import UnsupportedError
from wsched.fusion import DataType
from wsched.fusion.sweep import Place, Term
from wsched.importer import record_text
from wsched.importer.sweep import import_sweep

HEAD = """\
def nvfuser_fusion(fd : FusionDefinition) -> None :
    x = fd.define_tensor(shape=[-1, -1, 1], contiguity=[True, True, None], dtype=DataType.BFloat16)
    b = fd.define_tensor(shape=[-1], contiguity=[True], dtype=DataType.Float)
"""
BODY = """\
    p = fd.ops.permute(x, dims=[1, 2, 0])
    r = fd.ops.broadcast(b, is_broadcast_dim=[True, True, False])
    y = fd.ops.add(p, r)
    e = fd.ops.cast(y, dtype=DataType.Half)
    fd.add_output(e)
"""


def test_terms_and_places() -> None:
    """Types are promoted and rounded as nvFuser does; a permutation is an order of dimensions."""
    found = import_sweep(record_text(HEAD + BODY), [(2, 1, 0)])
    every = frozenset((0, 2))
    assert found.terms == (
        Term("v0", "input", DataType.BFloat16, (), every),
        Term("v1", "input", DataType.Float, (), frozenset((2,))),
        Term("v2", "cast", DataType.Float, ("v0",), every),
        Term("v3", "add", DataType.Float, ("v2", "v1"), every),
        Term("v4", "cast", DataType.Half, ("v3",), every),
    )
    assert found.inputs == (Place("v0", (2, 0, None)), Place("v1", (2,)))
    assert found.results == (Place("v4", (0, None, 2), (2, 1, 0)),)
    assert found.sizes([(3, 5, 1), (3,)]) == (5, 1, 3)
    assert found.bytes((5, 1, 3)) == 15 * 2 + 3 * 4 + 15 * 2


def test_a_dimension_that_nothing_differs_along_has_one_element() -> None:
    found = import_sweep(record_text(HEAD + BODY), [(2, 1, 0)])
    with pytest.raises(ValueError, match=r"^2 elements along a dimension that is read as one$"):
        found.sizes([(3, 5, 2), (3,)])


def test_a_copy() -> None:
    """A result may be an input."""
    text = (
        HEAD.replace("    b =", "    # b =") + "    fd.add_output(fd.ops.permute(x, [1, 0, 2]))\n"
    )
    found = import_sweep(record_text(text))
    assert [t.op for t in found.terms] == ["input"]
    assert found.results == (Place("v0", (0, 1, None), (0, 1, 2)),)


INDEXED = """\
def nvfuser_fusion(fd : FusionDefinition) -> None :
    x = fd.define_tensor(shape=[-1, -1], dtype=DataType.BFloat16)
    i = fd.define_tensor(shape=[-1], dtype=DataType.Int)
    j = fd.define_tensor(shape=[-1], dtype=DataType.Int32)
    w = fd.ops.cast(x, dtype=DataType.Float)
    a = fd.ops.index_select(w, i, dim=0)
    b = fd.ops.index_select(x, j, dim=0)
    c = fd.ops.index_select(x, i, dim=-2)
    d = fd.ops.add(a, b)
    e = fd.ops.add(d, c)
    fd.add_output(e)
"""


def test_rows_by_index() -> None:
    """A table is one input however often it is looked up, and the same rows are loaded once; what
    is selected of what is computed is computed of what is selected.
    """
    found = import_sweep(record_text(INDEXED))
    rows, every = frozenset((0,)), frozenset((0, 1))
    assert found.terms[:5] == (
        Term("v0", "input", DataType.BFloat16, (), every),
        Term("v1", "input", DataType.Int, (), rows),
        Term("v2", "input", DataType.Int32, (), rows),
        Term("v3", "index_select", DataType.BFloat16, ("v0", "v1"), every),
        Term("v4", "cast", DataType.Float, ("v3",), every),
    )
    assert [t.op for t in found.terms[5:]] == ["index_select", "cast", "add", "add"]
    assert found.inputs == (Place("v0", (0, 1), table=True), Place("v1", (0,)), Place("v2", (0,)))
    assert (found.by_index, found.results) == (0, (Place("v8", (0, 1), (0, 1)),))
    assert found.sizes([(9, 3), (4,), (4,)]) == (4, 3)
    assert found.bytes((4, 3)) == 2 * 12 * 2 + 4 * 8 + 4 * 4 + 12 * 4


MOMENTS = """\
def nvfuser_fusion(fd : FusionDefinition) -> None :
    x = fd.define_tensor(shape=[-1, -1], dtype=DataType.BFloat16)
    f = fd.ops.cast(x, dtype=DataType.Float)
    v, m = fd.ops.var_mean(f, dims=[1], correction=0, keepdim=True)
    d = fd.ops.sub(f, m)
    e = fd.ops.div(d, v)
    fd.add_output(e)
"""


def test_a_variance_is_a_mean_of_squared_deviations() -> None:
    """Whoever asks: one mean of a row, and deviations that what follows reads, too."""
    found = import_sweep(record_text(MOMENTS))
    assert [t.op for t in found.terms] == ["input", "cast", "mean", "sub", "mul", "mean", "div"]
    alone = MOMENTS.replace("v, m = fd.ops.var_mean(f", "v = fd.ops.var(f").replace(
        "(f, m)", "(f, v)"
    )
    assert [t.op for t in import_sweep(record_text(alone)).terms][:6] == [
        "input", "cast", "mean", "sub", "mul", "mean",
    ]  # fmt: skip


@pytest.mark.parametrize("kept", ["keepdim=True", ""])
def test_rows_of_results_in_another_order(kept: str) -> None:
    """A norm of heads behind which these are batches; but not columns of a transposed one."""
    spread = "set(s)" if kept else "broadcast(s, is_broadcast_dim=[False, False, True])"
    text = f"""\
def nvfuser_fusion(fd : FusionDefinition) -> None :
    x = fd.define_tensor(shape=[-1, -1, -1], dtype=DataType.Float)
    s = fd.ops.sum(x, dims=[2], {kept})
    b = fd.ops.{spread}
    d = fd.ops.sub(x, b)
    p = fd.ops.permute(d, dims=[1, 0, 2])
    fd.add_output(p)
"""
    found = import_sweep(record_text(text), [(1, 0, 2)])
    assert [t.op for t in found.terms] == ["input", "sum", "sub"]
    assert (found.inputs, found.over) == ((Place("v0", (1, 0, 2)),), {2})
    with pytest.raises(UnsupportedError, match=r"fd\.ops\.sum as \["):
        import_sweep(record_text(text.replace("[1, 0, 2]", "[2, 0, 1]")), [(1, 2, 0)])


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("correction=0", "correction=1", "fd.ops.var_mean with correction=1"),
        ("correction=0, ", "", "fd.ops.var_mean with correction=1, the default"),
        ("var_mean(f", "var_mean(x", "fd.ops.var_mean of BFloat16"),
    ],
)
def test_other_variances(old: str, new: str, what: str) -> None:
    with pytest.raises(UnsupportedError) as error:
        import_sweep(record_text(MOMENTS.replace(old, new)))
    assert error.value.what == what


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("j, dim=0", "j, dim=1", "j along another dimension"),
        ("w, i, dim=0", "fd.ops.index_select(x, i, dim=0), j, dim=0",
         "fd.ops.index_select along 0 of [d0@j, d1]"),
        ("w, i, dim=0", "w, fd.ops.add(i, 1), dim=0", "fd.ops.index_select by"),
        ("j = fd.define_tensor(shape=[-1]", "j = fd.define_tensor(shape=[-1, -1]",
         "fd.ops.index_select by j"),
        ("fd.ops.add(d, c)", "fd.ops.add(d, x)", "x as row and as column"),
        ("shape=[-1, -1], dtype=DataType.BFloat16", "shape=[1, -1], dtype=DataType.BFloat16",
         "a table of one row"),
        ("fd.ops.add(d, c)", "fd.ops.sub(d, fd.ops.sum(d, dims=[0], keepdim=True))",
         "fd.ops.index_select along 0 of [d0, d1]"),
    ],
)  # fmt: skip
def test_rows_by_what_is_no_index(old: str, new: str, said: str) -> None:
    text = INDEXED.replace(old, new, 1)
    assert text != INDEXED
    with pytest.raises(UnsupportedError) as error:
        import_sweep(record_text(text))
    assert error.value.what.startswith(said)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("fd.ops.add(p, r)", "fd.ops.lgamma(fd.ops.add(p, r))", "fd.ops.lgamma (no user has asked"),
        ("fd.ops.add(p, r)", "fd.ops.add(fd.ops.sub(p, fd.ops.sum(p, dims=[0], keepdim=True)), r)",
         "rows that are not the last in memory"),
        ("fd.ops.add(p, r)", "fd.ops.add(fd.ops.sum(p, dims=[0, 2], keepdim=True), r)",
         "reductions of several kinds"),
        ("fd.ops.add(p, r)", "fd.ops.sum(fd.ops.add(p, r), dims=[2], keepdim=True)",
         "a result that is a reduction"),
        ("dtype=DataType.Half", "dtype=DataType.Int", "fd.ops.cast to DataType.Int"),
        ("    fd.add_output(e)\n", "    fd.add_output(e)\n    fd.add_output(r)\n",
         "results that differ along several dimensions"),
        ("    fd.add_output(e)\n", "    fd.add_output(b)\n    fd.add_output(e)\n",
         "results of several ranks"),
        ("dims=[1, 2, 0]", "dims=[1, 0]", "fd.ops.permute to [1, 0]"),
        ("fd.ops.add(p, r)", "fd.ops.add(p, 1.0)", "the input b, which nothing reads,"),
        ("fd.ops.add(p, r)",
         "fd.ops.add(p, fd.ops.uniform(0, 2, [1, 1, 1], rng_seed=1, rng_offset=0))",
         "fd.ops.uniform from 0 to 2 as [d0, d1, d2]"),
        ("fd.ops.add(p, r)",
         "fd.ops.add(p, fd.ops.uniform(0, 1, [1, 1, 1], rng_seed=1, rng_offset=0))",
         "fd.ops.uniform without seed and offset"),
        ("dtype=DataType.BFloat16", "dtype=DataType.Int32", "the input x of type Int32"),
        ("fd.ops.add(p, r)",
         "fd.ops.add(fd.ops.add(p, r), fd.define_scalar(None, dtype=DataType.Int))",
         "the run-time scalar "),
    ],
)  # fmt: skip
def test_what_is_none(old: str, new: str, said: str) -> None:
    text = (HEAD + BODY).replace(old, new, 1)
    assert text != HEAD + BODY
    with pytest.raises(UnsupportedError) as error:
        import_sweep(record_text(text))
    assert error.value.what.startswith(said)
