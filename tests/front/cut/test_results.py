"""How results of a cut definition lie, and what one kernel of it has."""

from __future__ import annotations

import pytest

import wsched
from tests.front.cut.features import Feature, inputs_of, torch
from wsched.doors.fallback import interpret
from wsched.front import known
from wsched.front.cut.epilogues import Take
from wsched.front.cut.segments import Cutter
from wsched.importer import record_text


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known, "_texts", {})


def tensor(name: str, shape: tuple[int, int], by_columns: bool = False) -> str:
    """An input of 16 bits."""
    order = ", stride_order=[0, 1]" if by_columns else ""
    kind = "contiguity=[True, True], dtype=DataType.BFloat16, is_cpu=False"
    return f"{name} = fd.define_tensor(shape={list(shape)}, {kind}{order})"


def text_of(*declared: str, body: str) -> str:
    """A definition of these inputs."""
    lines = (x.strip() for x in (*declared, *body.strip().splitlines()))
    head = "def nvfuser_fusion(fd : FusionDefinition) -> None :\n"
    return head + "".join(f"    {line}\n" for line in lines)


def test_a_result_by_columns_that_a_matmul_reads() -> None:
    """NvFuser has it lie as the inputs that it is made of; the kernel behind it reads it so."""
    text = text_of(
        tensor("t0", (24, 32), by_columns=True), tensor("t1", (16, 32)), body="""
        f = fd.ops.cast(t0, dtype=DataType.Float)
        r = fd.ops.relu(f)
        x = fd.ops.cast(r, dtype=DataType.BFloat16)
        y = fd.ops.linear(x, t1)
        fd.add_output(x)
        fd.add_output(y)
        """,
    )  # fmt: skip
    rows, weight = torch.randint(-2, 3, (32, 24)).bfloat16(), torch.randint(-2, 3, (16, 32))
    inputs = [rows.T, weight.bfloat16()]
    found = wsched.execute(text, inputs)
    for ours, theirs in zip(found, interpret(record_text(text), inputs), strict=True):
        assert torch.equal(ours, theirs)
    assert found[0].stride() == (1, 24) and found[1].stride() == (16, 1)
    assert wsched.explain(text, inputs).route == "cut"


def test_rows_of_inputs_that_lie_differently() -> None:
    """What is made of an input by columns and one by rows lies in rows, whoever makes it."""
    text = text_of(
        tensor("t0", (24, 32), by_columns=True), tensor("t1", (24, 32)), tensor("t2", (16, 32)),
        body="""
        f = fd.ops.cast(t0, dtype=DataType.Float)
        g = fd.ops.cast(t1, dtype=DataType.Float)
        s = fd.ops.add(f, g)
        x = fd.ops.cast(s, dtype=DataType.BFloat16)
        y = fd.ops.linear(x, t2)
        fd.add_output(y)
        """,
    )  # fmt: skip
    made = [torch.randint(-2, 3, s).bfloat16() for s in ((32, 24), (24, 32), (16, 32))]
    inputs = [made[0].T, *made[1:]]
    (found,) = wsched.execute(text, inputs)
    assert torch.equal(found, interpret(record_text(text), inputs)[0])
    assert wsched.explain(text, inputs).route == "cut"


REPEATED = {
    "a bias": "x = fd.ops.broadcast_in_dim(t2, shape=[24, 16], broadcast_dims=[1])",
    "a row's sum": """s = fd.ops.sum(f, dims=[1], keepdim=True, dtype=DataType.Null)
        x = fd.ops.expand(s, shape=[24, 16])""",
}


@pytest.mark.parametrize("kind", ["BFloat16", "Float8_e4m3fn"])
@pytest.mark.parametrize("name", REPEATED)
def test_a_result_that_is_repeated(name: str, kind: str) -> None:
    """A sweep makes it whole. That was refused, and the product with it."""
    body = f"""
        y = fd.ops.linear(t0, t1)
        f = fd.ops.cast(y, dtype=DataType.Float)
        {REPEATED[name]}
        k = fd.ops.cast(x, dtype=DataType.{kind})
        fd.add_output(y)
        fd.add_output(k)
        """
    feature = Feature(body, ((24, 32), (16, 32), (16,))[: 2 + ("t2" in body)], 1, 1)
    inputs = inputs_of(feature)
    found = wsched.execute(feature.text, inputs)
    for ours, theirs in zip(found, interpret(record_text(feature.text), inputs), strict=True):
        assert torch.equal(ours.float(), theirs.float()) and ours.dtype is theirs.dtype
    assert wsched.explain(feature.text, inputs).route == "cut"


# --- what an epilogue reads -----------------------------------------------------------------------

WHOLE = {
    "expanded_along_batches": Feature(
        """
        y = fd.ops.linear(t0, t1, t2)
        f = fd.ops.cast(y, dtype=DataType.Float)
        e = fd.ops.expand(t3, shape=[3, 24, 16])
        g = fd.ops.cast(e, dtype=DataType.Float)
        a = fd.ops.add(f, g)
        o = fd.ops.cast(a, dtype=DataType.BFloat16)
        fd.add_output(o)
        """,
        ((3, 24, 32), (16, 32), (16,), (1, 24, 16)), 1, 1,
    ),
    "computed_in_front_of_a_broadcast": Feature(
        """
        y = fd.ops.matmul(t0, t1)
        f = fd.ops.cast(y, dtype=DataType.Float)
        n = fd.ops.neg(t2)
        b = fd.ops.broadcast(n, is_broadcast_dim=[True, False, False])
        a = fd.ops.add(f, b)
        fd.add_output(a)
        """,
        ((2, 24, 32), (2, 32, 16), (24, 16)), 1, 1, (2,),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WHOLE)
def test_one_kernel_has_all(name: str) -> None:
    """Cut as `install` cuts it, and by `execute` where it is one kernel as a whole."""
    feature = WHOLE[name]
    cut = Cutter(record_text(feature.text)).all(Take.ALL)
    assert [s.matmul for s in cut.segments] == [True] and cut.kernels[0].stop is None
    inputs = inputs_of(feature)
    (found,) = wsched.execute(feature.text, inputs)
    (wanted,) = interpret(record_text(feature.text), inputs)
    torch.testing.assert_close(found, wanted, rtol=2**-6, atol=2**-6)
    assert wsched.explain(feature.text, inputs).route == "wsched"


def test_a_product_without_elements_is_in_no_kernel_of_others() -> None:
    """In one grid with it the other product was not computed: the tiles were those of no rows."""
    text = text_of(
        tensor("x", (0, 32)), tensor("z", (24, 32)), tensor("w", (48, 32)), body="""
        fd.add_output(fd.ops.relu(fd.ops.linear(x, w)))
        fd.add_output(fd.ops.linear(z, w))
        """,
    )  # fmt: skip
    x, z, w = (torch.randn(s).bfloat16() for s in ((0, 32), (24, 32), (48, 32)))
    none, some = wsched.execute(text, [x, z, w])
    assert none.shape == (0, 48)
    torch.testing.assert_close(some, z @ w.T)
    said = wsched.explain(text, [x, z, w])
    assert [p.runs for p in said.parts] == ["torch", "wsched"]
    assert "fd.ops.linear of x, a dimension of size 0, is not supported" in str(said)


VECTORS = {
    "weight": ("linear(x, v)", ["wsched"]),
    "weight_by_name": ("linear(arg1=x, arg2=v)", ["wsched"]),
    "both": ("linear(v, v)", ["wsched", "wsched"]),
    "computed": ("linear(fd.ops.relu(x), v)", ["wsched", "wsched"]),
}


@pytest.mark.parametrize("name", VECTORS)
def test_a_vector_as_weight(name: str) -> None:
    call, runs = VECTORS[name]
    x = tensor("x", (24, 32)).replace("[24, 32]", "[4, 24, 32]").replace("[True, True]", "True")
    v = tensor("v", (32, 0)).replace("[32, 0]", "[32]").replace("[True, True]", "True")
    text = text_of(x, v, body=f"fd.add_output(fd.ops.{call})")
    inputs = [torch.randint(-2, 3, s).bfloat16() for s in ((4, 24, 32), (32,))]
    (found,), (wanted,) = wsched.execute(text, inputs), interpret(record_text(text), inputs)
    torch.testing.assert_close(found, wanted)
    said = wsched.explain(text, inputs)
    assert [p.runs for p in said.parts] == runs and "no kernel" not in str(said)


def test_what_cuts_a_fusion_in_two() -> None:
    """A definition that asks nvFuser for two kernels there."""
    text = text_of(
        tensor("x", (24, 32)), tensor("w", (48, 32)), body="""
        y = fd.ops.linear(fd.ops.segment_set(x), w)
        fd.add_output(fd.ops.relu(fd.ops.segment_set(y)))
        """,
    )  # fmt: skip
    x, w = (torch.randint(-2, 3, s).bfloat16() for s in ((24, 32), (48, 32)))
    (found,) = wsched.execute(text, [x, w])
    torch.testing.assert_close(found, (x @ w.T).relu())
    said = wsched.explain(text, [x, w])
    assert [p.runs for p in said.parts] == ["torch", "wsched", "torch"]
