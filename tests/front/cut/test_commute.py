"""Factors of operands behind the product: what is moved, what it computes, what stays."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from statistics import fmean
from typing import Any

import pytest

from lowering.ground.errors import UnsupportedError
from tests.front.cut.features import Feature, sizes_of
from tests.front.cut.norms import COMMUTE, half
from wsched import execute, explain
from wsched.doors.fallback import interpret, rebuild
from wsched.front.cut.choose import choose, least
from wsched.front.cut.epilogues import Take
from wsched.front.cut.factors import why_no_product
from wsched.front.cut.predict import Call
from wsched.front.cut.program import make
from wsched.front.cut.route import rest_by
from wsched.front.cut.segments import Cutter
from wsched.front.cut.sizes import bind_extents
from wsched.fusion import DataType
from wsched.importer import Definition, record_text

torch = pytest.importorskip("torch")


def moved(text: str) -> Cutter:
    """All factors of a definition behind its products."""
    cutter = Cutter(record_text(text))
    return cutter.with_moved(cutter.moves)


def inputs_of(feature: Feature, seed: int = 0) -> list[Any]:
    """Normally distributed, an eighth of the channels of the first a hundred times as large."""
    torch.manual_seed(seed)
    made = [torch.randn(s) for s in feature.shapes]
    made[0][..., ::8] *= 100
    return [t if at in feature.wide else t.bfloat16() for at, t in enumerate(made)]


def exactly(definition: Definition, inputs: list[Any]) -> list[Any]:
    """All in fp64."""
    nodes = tuple(
        replace(n, op="set", kwargs=()) if n.op == "cast" else n for n in definition.nodes
    )
    return interpret(replace(definition, nodes=nodes), [t.double() for t in inputs])


def run(cutter: Cutter, inputs: list[Any]) -> list[Any]:
    """The results, kernels by the machine."""
    definition, tensors = cutter.definition, cutter.graph.types
    given = dict(zip((n.results[0] for n in definition.inputs), inputs, strict=True))
    sizes = bind_extents(definition, tensors, inputs)
    chosen = least(cutter, Call(tensors, sizes, given=given, device=inputs[0].device), False)
    rest = lambda segment, device: rest_by(segment, device)[1]  # noqa: E731
    return list(make(definition, tensors, chosen.cut.segments, inputs, rest).run(inputs, None))


def prices(text: str) -> tuple[float, float]:
    """Microseconds of the best cut as it is, and with all factors behind the products."""
    cutter = Cutter(record_text(text))
    other = cutter.with_moved(cutter.moves)
    found = [least(c, sizes_of(c), False).cost.us for c in (cutter, other)]
    return found[0], found[1]


def error(found: Any, wanted: Any) -> float:
    return float((found.double() - wanted).norm() / wanted.norm())


@pytest.mark.parametrize("name", COMMUTE)
def test_as_good_as_normalising_first(name: str) -> None:
    """By fp64, with outliers, in the mean; of the strides that the definition's own results have.

    One rounding of K factors in place of another: few columns, so errors scatter.
    """
    feature, definition = COMMUTE[name], record_text(COMMUTE[name].text)
    ratios = []
    for seed in range(3):
        inputs = inputs_of(feature, seed)
        first, found = interpret(definition, inputs), run(moved(feature.text), inputs)
        for a, b, wanted in zip(found, first, exactly(definition, inputs), strict=True):
            assert (a.shape, a.dtype, a.stride()) == (b.shape, b.dtype, b.stride())
            assert error(b, wanted) < 2**-7
            ratios.append(error(a, wanted) / error(b, wanted))
    assert fmean(ratios) < 1.2


@pytest.mark.parametrize("name", COMMUTE)
def test_what_kernels_read(name: str) -> None:
    """No operand is computed row by row: the matmul's are inputs, or scaled along K."""
    cutter = moved(COMMUTE[name].text)
    cut = cutter.cut((Take.ALL,) * len(cutter.matmuls))
    for segment in (s for s in cut.segments if s.matmul):
        product = next(n for n in segment.definition.nodes if n.op in ("linear", "matmul"))
        assert segment.reads[0] == ("k" if name == "residual" else "t0"), product
        assert {"mul", "div"} & {n.op for n in segment.definition.nodes}


@pytest.mark.parametrize("name", COMMUTE)
def test_rests_are_definitions_of_nvfuser(name: str) -> None:
    """What wsched runs itself has a word of its own: a product in fp32."""
    pytest.importorskip("nvfuser_direct")
    cutter = moved(COMMUTE[name].text)
    for segment in (s for s in cutter.all(Take.ALL).segments if not s.matmul):
        made = rebuild(segment.definition)
        assert len(made.fusion.outputs()) == len(segment.outputs)


def test_read_once_by_two_matmuls() -> None:
    """Of gate and up both are scaled, in one kernel that reads x as it is."""
    cutter = moved(COMMUTE["two_readers"].text)
    cut = cutter.cut((Take.SHARED,) * 2)
    (kernel,) = (s for s in cut.segments if s.matmul)
    ops = [n.op for n in kernel.definition.nodes]
    assert ops.count("linear") == 2 and ops.count("mul") == 3
    assert "t0" in kernel.reads


@pytest.mark.parametrize("weights", ["t1", "w"])
def test_what_is_left_of_an_operand_is_made_once_if_it_is_read(weights: str) -> None:
    """In 16 bits for both matmuls; in fp32 it is multiplied by what was the weight's along K."""
    body = f"""
        p = fd.ops.add(t0, t3)
        q = fd.ops.mul(p, p)
        s = fd.ops.sum(q, dims=[1], keepdim=True, dtype=DataType.Null)
        r = fd.ops.rsqrt(s)
        n = fd.ops.mul(p, r)
        x = fd.ops.cast(n, dtype=DataType.BFloat16)
        e = fd.ops.mul(t1, t4)
        w = fd.ops.cast(e, dtype=DataType.BFloat16)
        y = fd.ops.linear(x, {weights})
        z = fd.ops.linear(x, t2)
        fd.add_output(y)
        fd.add_output(z)
    """
    shapes = (40, 64), (24, 64), (24, 64), (40, 64), (64,)
    found = moved(Feature(body, shapes, 2, 2).text).definition
    made = [n.results[0] for n in found.nodes if "@" in n.results[0]]
    read = {name for n in found.nodes for name in n.refs}
    assert len(set(made)) == len(made) and set(made) <= read
    assert ("p@BFloat16" in made) and sum(n.refs[:1] == ("p",) for n in found.nodes) > 1


def test_rounded_behind_its_factors() -> None:
    """The product is scaled in fp32, then rounded as the definition says, for all who read it."""
    cutter = moved(COMMUTE["bias_and_epilogue"].text)
    (kernel,) = (s for s in cutter.all(Take.ALL).segments if s.matmul)
    d = kernel.definition
    (silu,) = (n for n in d.nodes if n.op == "silu")
    wide = d.node(silu.refs[0])
    assert wide is not None and wide.op == "cast"
    rows = d.node(wide.refs[0])
    assert rows is not None and rows.op == "stride_order"
    rounded = d.node(rows.refs[0])
    assert rounded is not None and rounded.get("dtype") is DataType.BFloat16
    before = d.node(rounded.refs[0])
    assert before is not None and before.op == "add"  # of the bias, in fp32
    (product,) = (n for n in d.nodes if n.op == "linear")
    assert product.get("dtype") is DataType.Float


def test_a_product_that_says_fp32_has_its_factors_in_it() -> None:
    """Of operands of 16 bits, whatever the result's type; and that is not rounded."""
    case = COMMUTE["bias_and_epilogue"]
    cutter = moved(re.sub(r"(fd\.ops\.linear\(.*)\)", r"\1, dtype=DataType.Float)", case.text))
    (kernel,) = (s for s in cutter.all(Take.ALL).segments if s.matmul)
    d = kernel.definition
    (silu,) = (n for n in d.nodes if n.op == "silu")
    (product,) = (n for n in d.nodes if n.op == "linear")
    between = {*d.behind(silu.refs)} - {*d.behind(product.refs)}
    casts = (n for n in d.nodes if n.op == "cast" and n.results[0] in between)
    assert all(n.get("dtype") is DataType.Float for n in casts)
    given = inputs_of(case)
    for found, wanted in zip(run(cutter, given), exactly(cutter.definition, given), strict=True):
        assert error(found, wanted) < 0.01


@pytest.mark.parametrize(
    ("rows", "columns", "k", "pays"),
    [
        (8192, 1280, 8192, True),  # the weight is a sixth of x
        (512, 14336, 4096, False),  # x is a fraction of the weight
    ],
)
def test_predicted_time_decides(rows: int, columns: int, k: int, pays: bool) -> None:
    text = COMMUTE["norm"].text.replace("[40, 64]", f"[{rows}, {k}]")
    text = text.replace("[24, 64]", f"[{columns}, {k}]").replace("[64]", f"[{k}]")
    first, behind = prices(text)
    assert (behind < first) == pays
    cutter = Cutter(record_text(text))
    found = choose(cutter, sizes_of(cutter), may_leave=False)
    assert (found.cutter is not cutter) == pays and found.cost.us == min(first, behind)


def test_one_operand_after_the_other() -> None:
    """Of two norms the one is moved, the other stays."""
    body, shapes = "", []
    for at, (rows, columns, k) in enumerate(((8192, 1280, 8192), (512, 14336, 4096))):
        part = re.sub(r"\b([a-z])\b(?=[ ,)])", rf"\g<1>_{at}", COMMUTE["norm"].body)
        part = re.sub(r"\bt(\d)\b", lambda m, at=at: f"t{int(m[1]) + 3 * at}", part)
        body += part.replace("[40, 64]", f"[{rows}, {k}]")
        shapes += [(rows, k), (columns, k), (k,)]
    cutter = Cutter(record_text(Feature(body, tuple(shapes), 2, 2).text))
    found = choose(cutter, sizes_of(cutter), may_leave=False).cutter
    assert [m.operand for m in cutter.moves] == ["x_0", "x_1"]
    assert found.commuted is not None
    assert list(found.commuted.moved.values()) == [
        "r_0 of x_0 scales the product, in fp32, t2 of it is in t1"
    ]


def test_open_sizes() -> None:
    """Both forms know an extent by a symbol, not always by the same one."""
    text = re.sub(r"shape=\[(40|24), 64\], contig", "shape=[-1, -1], contig", COMMUTE["norm"].text)
    text = text.replace("shape=[64], contig", "shape=[-1], contig")
    text = text.replace("shape=[40, 64]", "shape=[i, j]").replace(
        "f = fd.ops.cast(t0", "i = fd.ops.size(t0, dim=0)\n    j = fd.ops.size(t0, dim=1)\n"
        "    f = fd.ops.cast(t0"
    )  # fmt: skip
    inputs = [torch.empty(s, dtype=torch.bfloat16) for s in ((8192, 8192), (1280, 8192), (8192,))]
    assert explain(text, inputs, gpu="H200").matmuls[0].operands == (
        "r of x scales the product, in fp32, t2 of it is in t1"
    )


def told(text: str, inputs: list[Any]) -> str:
    """What ``explain`` says of the first matmul."""
    return explain(text, inputs).matmuls[0].operands


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "x = fd.ops.cast(h", "i = fd.ops.add(h, t2)\n    x = fd.ops.cast(i",
            "x is normalised first: fd.ops.add (line 18) does not commute with the product",
        ),
        (
            "n = fd.ops.mul(f, e)", "c = fd.ops.sub(f, r)\n    n = fd.ops.mul(c, e)",
            "x is normalised first: its factors behind the product are predicted to be no faster",
        ),
        (
            "n = fd.ops.mul(f, e)", "c = fd.ops.exp(f)\n    n = fd.ops.add(c, e)",
            "x is normalised first: fd.ops.add (line 15) does not commute with the product",
        ),
        (
            "", "",
            "x is normalised first: its factors behind the product are predicted to be no faster",
        ),
    ],
)  # fmt: skip
def test_what_is_normalised_first(old: str, new: str, said: str) -> None:
    feature = COMMUTE["norm"]
    text = feature.text.replace(old, new) if old else feature.text
    assert old == new or text != feature.text
    assert told(text, inputs_of(feature)) == said


def test_an_operand_without_a_norm_is_not_normalised() -> None:
    feature = Feature(
        """
        f = fd.ops.cast(t0, dtype=DataType.Float)
        i = fd.ops.add(f, 1.0)
        x = fd.ops.cast(i, dtype=DataType.BFloat16)
        y = fd.ops.linear(x, t1)
        fd.add_output(y)
        """,
        ((40, 64), (24, 64)), 1, 1,
    )  # fmt: skip
    graph = Cutter(record_text(feature.text)).graph
    (matmul,) = graph.matmuls
    assert list(why_no_product(graph, matmul)) == []


def test_half() -> None:
    """A weight times a norm's weight may leave Half's range; a row's factor changes no operand."""
    feature = COMMUTE["norm"]
    inputs = [t.half() for t in inputs_of(feature)]
    assert told(half(feature.text), inputs) == (
        "x is normalised first: a factor along K in the other operand, in Half is not supported; "
        "supported: BFloat16, which has fp32's range"
    )
    rows = half(COMMUTE["rank_3"].text)
    cutter, inputs = moved(rows), [t.half() for t in inputs_of(COMMUTE["rank_3"])]
    inputs[0][0] *= 100  # products up to 1e5, which no tensor in Half has
    definition = record_text(rows)
    (wanted,) = exactly(definition, inputs)
    (found,), (first,) = run(cutter, inputs), interpret(definition, inputs)
    assert (inputs[0].float() @ inputs[1].float().T).abs().max() > 65504
    assert found.isfinite().all() and error(found, wanted) < 1.05 * error(first, wanted)


def test_half_only_with_its_factor() -> None:
    """What is left may be too large for Half."""
    text = COMMUTE["rank_3"].text.replace("n = fd.ops.mul(f, e)", """i = fd.ops.exp(f)
    n = fd.ops.mul(i, e)""")  # fmt: skip
    assert Cutter(record_text(text)).moves
    cutter = Cutter(record_text(half(text)))
    assert not cutter.moves
    assert list(cutter.why_first.values()) == [
        "x is normalised first: an operand that is Half only with its factors is not supported; "
        "supported: BFloat16, which has fp32's range"
    ]


def test_only_where_a_kernel_has_the_factor() -> None:
    """A factor along some of the dimensions that are a kernel's rows is none that it can read."""
    feature = Feature(
        """
        f = fd.ops.cast(t0, dtype=DataType.Float)
        q = fd.ops.abs(f)
        s = fd.ops.max(q, dims=[1, 2, 3], keepdim=True, dtype=DataType.Null)
        n = fd.ops.div(f, s)
        x = fd.ops.cast(n, dtype=DataType.BFloat16)
        y = fd.ops.linear(x, t1)
        fd.add_output(y)
        """,
        ((2, 2, 40, 64), (24, 64)), 1, 1,
    )  # fmt: skip
    text = feature.text
    cutter = Cutter(record_text(text))
    with pytest.raises(UnsupportedError, match="a product that is rounded before it is scaled"):
        cutter.with_moved(cutter.moves).all(Take.ALL)
    inputs = inputs_of(feature)
    assert told(text, inputs).startswith("x is normalised first: a product that is rounded before")
    (found,), (wanted,) = execute(text, inputs), exactly(record_text(text), inputs)
    assert error(found, wanted) < 2**-7


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(8))
def test_any_spelling(seed: int) -> None:
    """Factors are powers of two, in any order and shape: then both ways are exact."""
    text, shapes = random_product(seed)
    generator = torch.Generator().manual_seed(seed)

    def powers(shape: tuple[int, ...]) -> Any:
        return torch.randint(-2, 3, shape, generator=generator).float().exp2()

    inputs = [torch.randint(-2, 3, s, generator=generator).bfloat16() for s in shapes[:2]]
    inputs += [powers(s).bfloat16() for s in shapes[2:]]
    cutter = moved(text)
    assert cutter.commuted is not None and cutter.commuted.scaled
    for found, wanted in zip(
        run(cutter, inputs), interpret(record_text(text), inputs), strict=True
    ):
        assert torch.equal(found, wanted) and found.stride() == wanted.stride()


def random_product(seed: int) -> tuple[str, list[tuple[int, ...]]]:
    """A linear of an operand with factors of its rows and one along K, written at random."""
    choose_one = random.Random(seed)
    shapes: list[tuple[int, ...]] = [(40, 32), (24, 32)]
    lines, name = [], "t0"
    kinds = ["row", *choose_one.choices(("row", "column", "number", "cast"), k=4)]
    choose_one.shuffle(kinds)
    for at, kind in enumerate(kinds):
        op = choose_one.choice(("mul", "div"))
        new, t = f"v{at}", f"t{len(shapes)}"
        if kind == "cast":
            to = choose_one.choice(("Float", "BFloat16"))
            lines.append(f"{new} = fd.ops.cast({name}, dtype=DataType.{to})")
        elif kind == "number":
            lines.append(f"{new} = fd.ops.{op}({name}, {choose_one.choice((0.25, 0.5, 2.0))})")
        else:
            shape, dims = ((40,), [0]) if kind == "row" else ((32,), [1])
            flags = [kind == "column", kind == "row"]
            shapes.append(shape)
            lines.append(choose_one.choice((
                f"b{at} = fd.ops.broadcast({t}, is_broadcast_dim={flags})",
                f"b{at} = fd.ops.broadcast_in_dim({t}, shape=[40, 32], broadcast_dims={dims})",
            )))  # fmt: skip
            pair = [name, f"b{at}"]
            if op == "mul":
                choose_one.shuffle(pair)
            lines.append(f"{new} = fd.ops.{op}({', '.join(pair)})")
        name = new
    lines.append(f"x = fd.ops.cast({name}, dtype=DataType.BFloat16)")
    lines += ["y = fd.ops.linear(x, t1)", "fd.add_output(y)"]
    return Feature("\n".join(lines), tuple(shapes), 1, 1).text, shapes
