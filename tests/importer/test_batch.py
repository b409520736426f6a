"""Matmuls with a batch dimension: the canonical fusion, and what is refused."""

from __future__ import annotations

import pytest

from lowering.ground.errors import UnsupportedError
from wsched.fusion import Fusion, IterType, the_matmul
from wsched.importer import build_fusion, record_text

MATRIX = "fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)"
BATCH = MATRIX.replace("-1, -1", "-1, -1, -1").replace("True, True", "True, True, True")
MATMUL = "y = fd.ops.matmul(a, b)"


def build(*lines: str) -> Fusion:
    name = lines[-1].split(" = ")[0]
    body = "".join(f"    {line}\n" for line in lines)
    return build_fusion(
        record_text(f"def f(fd: FusionDefinition):\n{body}    fd.add_output({name})\n")
    )


def of(size: int) -> str:
    """A batch of a fixed size."""
    return BATCH.replace("[-1,", f"[{size},")


@pytest.mark.parametrize(
    ("a", "b", "domains"),
    [
        (BATCH, BATCH, "B M bN K B bM N K"),
        (BATCH, MATRIX, "B M bN K bB bM N K"),
        (MATRIX, BATCH, "bB M bN K B bM N K"),
        (of(1), of(1), "B M bN K B bM N K"),
    ],
)
def test_a_batch(a: str, b: str, domains: str) -> None:
    """Outside of rows and columns; an operand that has none is the same for all of it."""
    f = build(f"a = {a}", f"b = {b}", MATMUL)
    found = [
        ("b" if d.iter_type is IterType.Broadcast else "") + d.label
        for name in (f.mmas[0].a, f.mmas[0].b)
        for d in f.tensor(name).logical
    ]
    assert " ".join(found) == domains
    assert f.result_axes == f.outputs[0].axes == ("B", "M", "N")


@pytest.mark.parametrize(
    ("residual", "axes"),
    [
        (of(1), ("B", "M", "N")),
        (of(1).replace("-1, -1]", "-1, 1]"), ("1", "M", "1")),
        (MATRIX, ("M", "N")),
    ],
)
def test_a_matrix_of_a_batch_of_one(residual: str, axes: tuple[str, ...]) -> None:
    """It is all of the batch, and is loaded as any other."""
    lines = (f"a = {of(1)}", f"b = {MATRIX}", f"c = {residual}", MATMUL, "z = fd.ops.add(y, c)")
    f = build(*lines)
    (found,) = (b.axes for b in f.inputs if b.axes not in (("B", "M", "K"), ("N", "K"), ("K", "N")))
    assert found == axes
    open_batch = build(f"a = {BATCH}", *lines[1:])
    if residual == of(1):  # the same in a batch of which nobody says that it is one
        assert ("1", "M", "N") in [b.axes for b in open_batch.inputs]


def test_order_of_memory() -> None:
    """The last two dimensions may be exchanged: by a stride order, or by a permutation."""
    columns = BATCH.replace("dtype", "stride_order=[2, 0, 1], dtype")
    moved = "t = fd.ops.permute(y, dims=[0, 2, 1])"
    f = build(f"a = {columns}", f"b = {BATCH}", MATMUL, moved)
    assert f.result_axes == f.outputs[0].axes == ("B", "N", "M")
    assert [str(d.extent) for d in f.tensor(f.inputs[0].tensor).in_memory] == ["B", "K", "M"]


@pytest.mark.parametrize(
    ("order", "memory"),
    [
        ("[2, 1, 0]", "B M K"), ("[1, 2, 0]", "B M K"), ("[0, 2, 1]", "B M K"),
        ("[2, 0, 1]", "B K M"), ("[1, 0, 2]", "B K M"), ("[0, 1, 2]", "B K M"),
    ],
)  # fmt: skip
def test_batches_lie_anywhere(order: str, memory: str) -> None:
    """Of the matrix's dimensions the faster one; where the batches are, strides of a call say."""
    a = BATCH.replace("dtype", f"stride_order={order}, dtype")
    f = build(f"a = {a}", f"b = {BATCH}", MATMUL)
    assert " ".join(str(d.extent) for d in f.tensor(f.inputs[0].tensor).in_memory) == memory


@pytest.mark.parametrize(
    ("lines", "what", "supported"),
    [
        (
            (f"a = {BATCH}", f"b = {BATCH}", "y = fd.ops.linear(a, b)"),
            "fd.ops.linear of b with shape [-1, -1, -1]",
            "[N, K]",
        ),
        (
            (f"a = {BATCH.replace('-1, -1,', '-1, -1, -1, -1,')}", f"b = {BATCH}", MATMUL),
            "fd.ops.matmul of a with shape [-1, -1, -1, -1, -1]",
            "[B, H, M, K], batches in at most two dimensions",
        ),
        (
            (f"a = {BATCH.replace('-1, -1,', '-1, -1, -1,')}", f"b = {MATRIX}", MATMUL),
            "fd.ops.matmul of a with shape [-1, -1, -1, -1]",
            "[B, M, K]",
        ),
        (
            (f"a = {BATCH}", f"b = {of(1)}", MATMUL),
            "fd.ops.matmul of b with shape [1, -1, -1], which has one batch for several of a,",
            "batches of the same size, or a matrix",
        ),
        (
            (f"a = {of(2)}", f"b = {of(3)}", MATMUL),
            "fd.ops.matmul with B = 2 and 3",
            "one size of B",
        ),
        (
            (f"a = {BATCH}", f"b = {BATCH}", MATMUL, "z = fd.ops.permute(y, dims=[1, 0, 2])"),
            "fd.ops.permute with dims=[1, 0, 2]",
            "dims=[0, 2, 1]",
        ),
        (
            (f"a = {BATCH}", f"b = {BATCH}", f"c = {MATRIX}", MATMUL)
            + ("z = fd.ops.add(fd.ops.broadcast(y, [False, False, False, True]), c)",),
            "the output z with 4 dimensions",
            "outputs [B, M, N]",
        ),
    ],
)
def test_refused(lines: tuple[str, ...], what: str, supported: str) -> None:
    with pytest.raises(UnsupportedError) as error:
        build(*lines)
    assert (error.value.what, error.value.supported) == (what, supported)


HEADS = BATCH.replace("-1, -1,", "-1, -1, -1,").replace("True, True,", "True, True, True,")


@pytest.mark.parametrize(
    ("a", "b", "own"),
    [
        (HEADS, HEADS, (("B", "H", "M", "K"), ("B", "H", "K", "N"))),
        (HEADS, BATCH, (("B", "H", "M", "K"), ("H", "K", "N"))),
        (BATCH, HEADS, (("H", "M", "K"), ("B", "H", "K", "N"))),
    ],
)
def test_two_batch_dimensions(a: str, b: str, own: tuple[tuple[str, ...], ...]) -> None:
    f = build(f"a = {a}", f"b = {b}", MATMUL)
    assert tuple(x.axes for x in f.inputs) == own
    assert f.result_axes == f.outputs[0].axes == ("B", "H", "M", "N")
    assert len(the_matmul(f).outer) == 2


def test_what_an_epilogue_reads_along_one_of_two_batch_dimensions() -> None:
    """A mask of each sequence, a factor of each head."""
    mask = HEADS.replace("-1, -1, -1, -1", "-1, 1, -1, -1").replace("True, True", "True, None", 1)
    head = HEADS.replace("-1, -1, -1, -1", "1, -1, 1, 1").replace("BFloat16", "Float")
    f = build(
        f"a = {HEADS}", f"b = {HEADS}", f"c = {mask}", f"d = {head}", MATMUL,
        "s = fd.ops.add(y, c)", "p = fd.ops.mul(s, d)",
    )  # fmt: skip
    assert [x.axes for x in f.inputs[2:]] == [("B", "1", "M", "N"), ("1", "H", "1", "1")]
