"""Rotary embeddings as sweeps: two halves of a row behind each other, and tables of positions."""

from __future__ import annotations

from typing import Any

import pytest

import wsched
from lowering.ground.errors import UnsupportedError
from lowering.ground.expr import Const
from wsched.doors.fallback import interpret
from wsched.front.cut.choose import choose
from wsched.front.cut.epilogues import Take
from wsched.front.cut.infer import infer
from wsched.front.cut.pieces import pieces
from wsched.front.cut.predict import Sizes
from wsched.front.cut.segments import Cutter, Segment
from wsched.front.cut.sizes import open_extents
from wsched.front.cut.views_first import halved, views_first
from wsched.importer import record_text

torch = pytest.importorskip("torch", reason="torch is not installed")

HEADS, GROUPS, TOKENS, SIZE, WIDTH = 4, 2, 24, 32, 64
EACH, HALF = HEADS // GROUPS, SIZE // 2

_HEAD = f"""\
def nvfuser_fusion(fd : FusionDefinition) -> None :
    x = fd.define_tensor(shape=[{TOKENS}, {WIDTH}], contiguity=True, dtype=DataType.BFloat16)
    w = fd.define_tensor(shape=[{HEADS * SIZE}, {WIDTH}], contiguity=True, dtype=DataType.BFloat16)
    u = fd.define_tensor(shape=[{GROUPS * SIZE}, {WIDTH}], contiguity=True, dtype=DataType.BFloat16)
"""
_INPUTS = f"""\
    c = fd.define_tensor(shape=[{TOKENS}, {SIZE}], contiguity=True, dtype=DataType.BFloat16)
    s = fd.define_tensor(shape=[{TOKENS}, {SIZE}], contiguity=True, dtype=DataType.BFloat16)
"""
_TABLES = f"""\
    i = fd.ops.iota(length={TOKENS}, start=0, step=1)
    p = fd.ops.cast(i, dtype=DataType.Float)
    pb = fd.ops.broadcast(p, is_broadcast_dim=[False, True])
    pe = fd.ops.expand(pb, shape=[{TOKENS}, {HALF}])
    j = fd.ops.iota(length={HALF}, start=0, step=1)
    f = fd.ops.cast(j, dtype=DataType.Float)
    g = fd.ops.exp(fd.ops.mul(f, -0.25))
    gb = fd.ops.broadcast(g, is_broadcast_dim=[True, False])
    ge = fd.ops.expand(gb, shape=[{TOKENS}, {HALF}])
    a = fd.ops.mul(pe, ge)
    ac = fd.ops.cos(a)
    cc = fd.ops.cat([ac, ac], dim=1)
    c = fd.ops.cast(cc, dtype=DataType.BFloat16)
    an = fd.ops.sin(a)
    ss = fd.ops.cat([an, an], dim=-1)
    s = fd.ops.cast(ss, dtype=DataType.BFloat16)
"""


def _turned(name: str, weight: str, heads: int, padded: bool) -> str:
    """``name``: heads of a linear, turned by the sines and cosines of their positions."""
    n, whole = name, f"[1, {heads}, {TOKENS}, {SIZE}]"
    lower, upper = (
        f"{n}4 = fd.ops.slice({n}2, start_indices=[0, 0, 0, {HALF}], end_indices={whole})",
        f"{n}7 = fd.ops.slice({n}2, start_indices=[0, 0, 0, 0], "
        f"end_indices=[1, {heads}, {TOKENS}, {HALF}])",
    )
    joined = (f"{n}8 = fd.ops.cat([{n}6, {n}7], dim=3)",)
    if padded:  # as nvFuser prints it
        joined = (
            f"{n}z = fd.define_scalar(0.0, dtype=DataType.BFloat16)",
            f"{n}h = fd.ops.add(0, {HALF})",
            f"{n}l = fd.ops.pad({n}6, pad_widths=[0, {HALF}, 0, 0, 0, 0, 0, 0], value={n}z)",
            f"{n}u = fd.ops.pad({n}7, pad_widths=[{n}h, 0, 0, 0, 0, 0, 0, 0], value={n}z)",
            f"{n}8 = fd.ops.cat([{n}l, {n}u], dim=3, manual_padding=True)",
        )
    spread = (
        f"{n}{t}b = fd.ops.broadcast({t}, is_broadcast_dim=[True, True, False, False])\n"
        f"    {n}{t}e = fd.ops.expand({n}{t}b, shape={whole})"
        for t in "cs"
    )
    lines = (
        f"{n}0 = fd.ops.linear(x, {weight})",
        f"{n}1 = fd.ops.reshape({n}0, new_shape=[1, {TOKENS}, {heads}, {SIZE}])",
        f"{n}2 = fd.ops.permute({n}1, dims=[0, 2, 1, 3])",
        *spread,
        f"{n}3 = fd.ops.mul({n}2, {n}ce)",
        lower,
        f"{n}5 = fd.ops.neg({n}4)",
        f"{n}6 = fd.ops.cast({n}5, dtype=DataType.BFloat16)",
        upper,
        *joined,
        f"{n}9 = fd.ops.mul({n}8, {n}se)",
        f"{n}t = fd.ops.add({n}3, {n}9)",
        f"{n} = fd.ops.cast({n}t, dtype=DataType.BFloat16)",
    )
    return "".join(f"    {line}\n" for line in lines)


def definition(tables: bool = False, padded: bool = False, repeated: bool = False) -> str:
    """Queries; and keys, which heads share."""
    text = _HEAD + (_TABLES if tables else _INPUTS)
    text += _turned("q", "w", HEADS, padded) + _turned("k", "u", GROUPS, padded)
    if not repeated:
        return text + "    fd.add_output(q)\n    fd.add_output(k)\n"
    return (
        text
        + f"""\
    kb = fd.ops.broadcast(k, is_broadcast_dim=[False, False, True, False, False])
    ke = fd.ops.expand(kb, shape=[1, {GROUPS}, {EACH}, {TOKENS}, {SIZE}])
    r = fd.ops.reshape(ke, new_shape=[1, {HEADS}, {TOKENS}, {SIZE}])
    fd.add_output(q)
    fd.add_output(r)
"""
    )


def inputs(tables: bool = False) -> list[Any]:
    draw = torch.Generator().manual_seed(0)
    shapes = [(TOKENS, WIDTH), (HEADS * SIZE, WIDTH), (GROUPS * SIZE, WIDTH)]
    shapes += [] if tables else [(TOKENS, SIZE)] * 2
    return [torch.randn(shape, generator=draw).bfloat16() for shape in shapes]


def cut(text: str) -> tuple[Segment, ...]:
    cutter = Cutter(record_text(text))
    tensors = cutter.graph.types
    sizes = Sizes(tensors, open_extents(cutter.definition, tensors))
    return choose(cutter, sizes, may_leave=False).cut.segments


@pytest.mark.parametrize("tables", [False, True])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("repeated", [False, True])
def test_no_other_is_called(tables: bool, padded: bool, repeated: bool) -> None:
    """The same bits as operation by operation; tables of positions are made once."""
    text, given = definition(tables, padded, repeated), inputs(tables)
    found = cut(text)
    assert sum(s.sweep is not None for s in found) == 2 and all(s.own or s.kept for s in found)
    assert [s.outputs for s in found if s.kept] == ([("c", "s")] if tables else [])
    told = wsched.explain(text, given)
    assert ("once, then kept\n" in f"{told}\n") is tables
    for _ in range(2):
        results, wanted = wsched.execute(text, given), interpret(record_text(text), given)
        for a, b in zip(results, wanted, strict=True):
            assert torch.equal(a, b)


def test_tables_are_left_where_others_are_called_anyway() -> None:
    """They make them on the way."""
    text = definition(tables=True).replace("fd.add_output(k)", "fd.add_output(fd.ops.cumsum(k, 3))")
    assert not any(s.kept for s in cut(text))


WEIGHED = """\
def nvfuser_fusion(fd : FusionDefinition) -> None :
    x = fd.define_tensor(shape=[64, {k}], contiguity=True, dtype=DataType.BFloat16)
    w = fd.define_tensor(shape=[64, {k}], contiguity=True, dtype=DataType.BFloat16)
    i = fd.ops.iota(length=64, start=0, step=1)
    p = fd.ops.cos(fd.ops.cast(i, dtype=DataType.Float))
    r = fd.ops.expand(fd.ops.broadcast(p, is_broadcast_dim=[False, True]), shape=[64, 64])
    c = fd.ops.expand(fd.ops.broadcast(p, is_broadcast_dim=[True, False]), shape=[64, 64])
    t = fd.ops.pow(r, c)
    y = fd.ops.linear(x, w)
    z = fd.ops.mul(y, t)
    fd.add_output(fd.ops.cast(z, dtype=DataType.BFloat16))
"""


def test_tables_take_no_more_memory_than_tensors() -> None:
    """16 KiB of numbers beside 8 KiB of results, and operands of 4 or of 32 KiB."""
    kept = {k: [s.outputs for s in cut(WEIGHED.format(k=k)) if s.kept] for k in (16, 128)}
    assert kept == {16: [], 128: [("t",)]}


def test_halves_are_of_whole_pieces_of_a_row() -> None:
    assert halved((Const(3), Const(48))) == (Const(3), Const(2), Const(24))
    for odd in (Const(24), Const(0)):
        with pytest.raises(UnsupportedError, match="multiples of 16"):
            halved((odd,))
    with pytest.raises(UnsupportedError, match="halves of a single number"):
        halved(())


SUMMED = """\
def nvfuser_fusion(fd : FusionDefinition) -> None :
    x = fd.define_tensor(shape=[4, 16], contiguity=True, dtype=DataType.BFloat16)
    y = fd.define_tensor(shape=[4, 16], contiguity=True, dtype=DataType.BFloat16)
    w = fd.define_tensor(shape=[8, 32], contiguity=True, dtype=DataType.BFloat16)
    c = fd.ops.cat([x, y], dim=1)
    s = fd.ops.sum(fd.ops.cast(c, dtype=DataType.Float), dims={dims}, keepdim=False)
    fd.add_output(s)
    fd.add_output(fd.ops.linear(c, w))
"""


TURNED = """\
def nvfuser_fusion(fd : FusionDefinition) -> None :
    x = fd.define_tensor(shape=[64, 32], contiguity=True, dtype=DataType.BFloat16)
    y = fd.define_tensor(shape=[64, 32], contiguity=True, dtype=DataType.BFloat16,
                         stride_order=[0, 1])
    w = fd.define_tensor(shape=[8, 64], contiguity=True, dtype=DataType.BFloat16)
    c = fd.ops.relu(fd.ops.cat([x, y], dim=1))
    fd.add_output(c)
    fd.add_output(fd.ops.linear(c, w))
"""


def test_a_half_that_lies_the_other_way() -> None:
    """Loads that turn it read all rows, also for the tiles of the other half."""
    draw = torch.Generator().manual_seed(0)
    x, y, w = (torch.randn(s, generator=draw).bfloat16() for s in ((64, 32), (32, 64), (8, 64)))
    assert [s.sweep is not None for s in cut(TURNED)] == [True, False]
    results = wsched.execute(TURNED, [x, y.T, w])
    assert torch.equal(results[0], torch.cat([x, y.T], 1).relu())


@pytest.mark.parametrize("dims", [[0, 1], [0], [1]])
def test_sums_of_halves(dims: list[int]) -> None:
    """Sums of all of it have no rows that could be halved."""
    text, draw = SUMMED.format(dims=dims), torch.Generator().manual_seed(0)
    given = [torch.randint(-3, 4, s, generator=draw).bfloat16()
             for s in ((4, 16), (4, 16), (8, 32))]  # fmt: skip
    results, wanted = wsched.execute(text, given), interpret(record_text(text), given)
    for a, b in zip(results, wanted, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (f"pad_widths=[0, {HALF}, 0, 0,", f"pad_widths=[{HALF}, 0, 0, 0,"),
        ("define_scalar(0.0,", "define_scalar(1.0,"),
    ],
)
def test_what_is_no_two_halves(old: str, new: str) -> None:
    """Zeros in front of the first, or others than zeros: for others, with the right results."""
    text, given = definition(padded=True).replace(old, new), inputs()
    assert not all(s.own for s in cut(text))
    for a, b in zip(wsched.execute(text, given), interpret(record_text(text), given), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize(
    "made",
    [
        "fd.ops.iota(64, 0, 1, dtype=DataType.Int)",
        "fd.ops.full(shape=[64], fill_value=2, dtype=DataType.Int)",
    ],
)
def test_times_what_is_made_of_no_tensor(made: str) -> None:
    """Angles that the definition makes itself."""
    text = f"""\
def nvfuser_fusion(fd : FusionDefinition) -> None :
    x = fd.define_tensor(shape=[16, 64], contiguity=[True, True], dtype=DataType.BFloat16)
    w = fd.define_tensor(shape=[32, 64], contiguity=[True, True], dtype=DataType.BFloat16)
    a = fd.ops.slice(x, start_indices=[0, 0], end_indices=[16, 32])
    b = fd.ops.slice(x, start_indices=[0, 32], end_indices=[16, 64])
    n = fd.ops.cast(fd.ops.neg(b), dtype=DataType.BFloat16)
    r = fd.ops.cat([n, a], dim=-1)
    i = fd.ops.broadcast({made}, is_broadcast_dim=[True, False])
    p = fd.ops.mul(r, fd.ops.cast(i, dtype=DataType.Float))
    d = fd.ops.linear(fd.ops.cast(p, dtype=DataType.BFloat16), w)
    fd.add_output(d)
"""
    torch.manual_seed(0)
    given = [torch.randint(-2, 3, shape).bfloat16() for shape in ((16, 64), (32, 64))]
    (found,), (wanted,) = wsched.execute(text, given), interpret(record_text(text), given)
    assert torch.equal(found, wanted)


def test_more_than_two_are_for_others() -> None:
    """Three tensors behind each other, the last of them with zeros around it."""
    text = f"""\
def nvfuser_fusion(fd : FusionDefinition) -> None :
    x = fd.define_tensor(shape=[{TOKENS}, {WIDTH}], contiguity=True, dtype=DataType.BFloat16)
    w = fd.define_tensor(shape=[{SIZE}, {WIDTH}], contiguity=True, dtype=DataType.BFloat16)
    y = fd.define_tensor(shape=[{SIZE}], contiguity=True, dtype=DataType.BFloat16)
    m = fd.ops.neg(fd.ops.linear(x, w))
    a = fd.ops.slice(y, start_indices=[0], end_indices=[{SIZE - 4}])
    z = fd.define_scalar(0.0, dtype=DataType.BFloat16)
    p = fd.ops.pad(y, pad_widths=[0, 4], value=z)
    o = fd.ops.relu(fd.ops.cat([y, a, p], dim=0))
    fd.add_output(m)
    fd.add_output(o)
"""
    x, w, _, (y, *_), _ = inputs()
    given = [x, w[:SIZE], y]
    found, wanted = wsched.execute(text, given), interpret(record_text(text), given)
    assert torch.equal(found[1], wanted[1])


def test_nvfuser_makes_a_kernel_for_each_result() -> None:
    """Where something is behind something else in them; each with all that it needs."""
    cutter = Cutter(record_text(definition()))
    (rest,) = (s.definition for s in cutter.all(Take.SHARED).segments if not s.matmul)
    found = pieces(rest, cutter.graph.types)
    assert [sorted(p.writes) for p in found] == [["q"], ["k"]]
    assert [sorted(p.reads) for p in found] == [["c", "q0", "s"], ["c", "k0", "s"]]


_SPREAD = "is_broadcast_dim=[False, True, False]"


def test_tables_that_nothing_expands() -> None:
    """Tokens in front of heads, as a linear makes them, and tables spread over both as they are."""
    head = "".join(_HEAD.splitlines(keepends=True)[:-1])
    text = f"""\
{head}{_INPUTS}    y = fd.ops.linear(x, w)
    l = fd.ops.reshape(y, new_shape=[{TOKENS}, {HEADS}, {SIZE}])
    h = fd.ops.cast(l, dtype=DataType.Float)
    a = fd.ops.slice(h, start_indices=[0, 0, 0], end_indices=[{TOKENS}, {HEADS}, {HALF}])
    b = fd.ops.slice(h, start_indices=[0, 0, {HALF}], end_indices=[{TOKENS}, {HEADS}, {SIZE}])
    r = fd.ops.cat([fd.ops.neg(b), a], dim=2)
    cb = fd.ops.cast(fd.ops.broadcast(c, {_SPREAD}), dtype=DataType.Float)
    sb = fd.ops.cast(fd.ops.broadcast(s, {_SPREAD}), dtype=DataType.Float)
    z = fd.ops.add(fd.ops.mul(h, cb), fd.ops.mul(r, sb))
    fd.add_output(fd.ops.cast(z, dtype=DataType.BFloat16))
"""
    generator = torch.Generator().manual_seed(5)
    shapes = ((TOKENS, WIDTH), (HEADS * SIZE, WIDTH), (TOKENS, SIZE), (TOKENS, SIZE))
    given = [torch.randn(shape, generator=generator).bfloat16() for shape in shapes]
    assert {p.runs for p in wsched.explain(text, given).parts} == {"wsched"}
    (found,), (wanted,) = wsched.execute(text, given), interpret(record_text(text), given)
    torch.testing.assert_close(found, wanted, rtol=2**-7, atol=2**-7)


def test_other_views_of_what_is_broadcast() -> None:
    definition = record_text(
        """\
def nvfuser_fusion(fd : FusionDefinition) -> None :
    x = fd.define_tensor(shape=[8, 32], contiguity=True, dtype=DataType.BFloat16)
    r = fd.define_tensor(shape=[1, 32], contiguity=[None, True], dtype=DataType.BFloat16)
    y = fd.ops.add(x, r)
    s = fd.ops.slice(y, start_indices=[0, 8], end_indices=[8, 16])
    fd.add_output(fd.ops.neg(s))
"""
    )
    with pytest.raises(UnsupportedError, match="a view of y, which is broadcast from r"):
        views_first(definition, infer(definition).types)
