"""Grouped matmuls without a definition: torch's meaning, epilogues, and what is refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch

import wsched
from tests.grouped import FORMS, SIZES, given, grouped, product
from wsched.front.again import Again
from wsched.front.grouped import Operations
from wsched.importer.definition import Ref
from wsched.importer.input_error import InputError


def gate_and_up(ops: Operations, gate: Any, up: Any) -> Any:
    return ops.mul(ops.silu(gate), up)


def relu(ops: Operations, d: Any) -> Any:
    return ops.relu(d)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("matrix", ["nk", "kn"])
@pytest.mark.parametrize("form", ["columns", "sums"])
def test_other_forms(form: str, matrix: str) -> None:
    """Columns may end anywhere; a group without rows is a sum of nothing."""
    x, w, ends = given(SIZES["hard"], 40, 56, behind=6, matrix=matrix, ranks=FORMS[form])
    wanted = product(x, w, ends).bfloat16()
    for first in (x, x.mT.contiguous().mT):
        d = wsched.grouped_mm(first, w, ends)
        assert d.shape == ((6, 40, 56) if form == "sums" else (40, sum(SIZES["hard"]) + 6))
        assert torch.equal(d[..., : wanted.shape[-1]], wanted)


@pytest.mark.sampled
@pytest.mark.parametrize("matrix", ["nk", "kn"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_as_torch_means_it(matrix: str, dtype: Any) -> None:
    x, w, ends = given(SIZES["hard"], 72, 56, behind=4, matrix=matrix, dtype=dtype)
    d = wsched.grouped_mm(x, w, ends)
    assert (d.shape, d.dtype) == ((len(x), 72), dtype)
    assert torch.equal(d[:-4], product(x, w, ends).to(dtype))


def test_further_calls_look_at_values_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of ends on the CPU; all else follows from classes."""
    x, w, ends = given((5, 0, 70), 40, 32)
    first = wsched.grouped_mm(x, w, ends)
    monkeypatch.setattr("wsched.front.grouped._require", lambda *_: pytest.fail("checked again"))
    assert torch.equal(wsched.grouped_mm(x.clone(), w, ends), first)
    moved = torch.tensor([9, 9, 75], dtype=torch.int32)
    assert torch.equal(wsched.grouped_mm(x, w, moved), product(x, w, moved).bfloat16())
    with pytest.raises(InputError, match="which do not rise"):
        wsched.grouped_mm(x, w, ends.flip(0))


def test_rows_of_columns_are_copied_in_front() -> None:
    """TMA reads rows by rows only where they are in groups."""
    x, w, ends = given((3, 0, 20), 24, 40)
    columns = x.T.contiguous().T
    made = wsched.compile(grouped(), [columns, w, ends])
    for d in (wsched.grouped_mm(columns, w, ends), *made(columns, w, ends)):
        assert torch.equal(d, product(x, w, ends).to(x.dtype))


def test_gate_and_up() -> None:
    x, w, ends = given((5, 0, 70), 40, 32)
    u = w.flip(0)
    d = wsched.grouped_mm(x, (w, u), ends, epilogue=gate_and_up)
    gate, up = (product(x, y, ends) for y in (w, u))  # in fp32, as the epilogue reads them
    assert torch.equal(d, (torch.nn.functional.silu(gate) * up).bfloat16())


def test_a_bias_and_a_type() -> None:
    x, w, ends = given((5, 9, 70), 40, 32)
    bias = torch.randint(-3, 4, (3, 40)).float()
    d = wsched.grouped_mm(x, w, ends, bias=bias, epilogue=relu, out_dtype=torch.float32)
    group = torch.repeat_interleave(torch.arange(3), torch.tensor((5, 9, 70)))
    assert d.dtype is torch.float32
    assert torch.equal(d, (product(x, w, ends) + bias[group]).bfloat16().float().relu())


def weighted(ops: Operations, d: Any, scale: Any, rest: Any) -> Any:
    scaled = ops.mul(d, ops.broadcast(scale, is_broadcast_dim=[False, True]))
    return ops.add(scaled, rest)


def test_a_weight_for_each_row_and_a_residual() -> None:
    x, w, ends = given((5, 9, 70), 40, 32)
    scale, rest = torch.randint(1, 4, (84,)).float(), torch.randint(-3, 4, (84, 40)).bfloat16()
    d = wsched.grouped_mm(x, w, ends, epilogue=weighted, inputs=[scale, rest])
    scaled = product(x, w, ends).bfloat16().float() * scale[:, None]
    assert torch.equal(d, (scaled + rest).bfloat16())


X, W, ENDS = given((3, 4), 16, 32)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((X, W, [3, 7]), "offsets is a list, not a torch.Tensor"),
        ((X, W, ENDS.long()), "offsets is torch.int64, the definition says torch.int32"),
        ((X, W, ENDS.flip(0)), "offsets are [7, 3], which do not rise from 0 to at most 7 rows"),
        ((X, W, ENDS + 1), "offsets are [4, 8], which do not rise from 0 to at most 7 rows"),
        ((X, (), ENDS), "w has 0 tensors, whose products no epilogue takes"),
        ((X, (W, W), ENDS), "w has 2 tensors, whose products no epilogue takes"),
        ((X.cfloat(), W, ENDS), "x of torch.complex64 is not supported"),
        ((X, W.cfloat(), ENDS), "w of torch.complex64 is not supported"),
        ((X, W[0, 0], ENDS), "x has 2 dimensions and w has 1"),
        ((W, X.mT, ENDS + 1), "offsets are [4, 8], which do not rise from 0 to at most 7 columns"),
        ((X.mT, X, ENDS + 1),
         "offsets are [4, 8], which do not rise from 0 to at most 7 rows of w"),
        ((X, W[:1], ENDS), "B is 2 in dimension 0 of input 1 and 1 in dimension 0 of input 2"),
        ((X, None, ENDS), "w is a NoneType, not a torch.Tensor"),
        ((X[:, :8], W, ENDS), "K is 8 in dimension 1 of input 0 and 32 in dimension 1 of input 2"),
    ],
)  # fmt: skip
def test_refused(arguments: Any, text: str) -> None:
    with pytest.raises((InputError, wsched.UnsupportedError)) as e:
        wsched.grouped_mm(*arguments)
    assert str(e.value).startswith(text)


KINDS = ["int32", "int64", "int8", "uint8", "bool", "float32", "float64", "float8_e4m3fn"]


@pytest.mark.parametrize("kind", KINDS)
def test_other_types_than_16_bits(kind: str) -> None:
    """Some had wrong sums without a word."""
    dtype = getattr(torch, kind)
    for x, w in ((X.to(dtype), W.to(dtype)), (X.to(dtype), W)):
        with pytest.raises(wsched.UnsupportedError) as e:
            wsched.grouped_mm(x, w, ENDS)
        assert (e.value.what, e.value.supported) == (
            f"x of torch.{kind}", "torch.bfloat16, torch.float16"
        )  # fmt: skip
    with pytest.raises(wsched.UnsupportedError, match=f"^w of torch.{kind} is not supported"):
        wsched.grouped_mm(X, W.to(dtype), ENDS)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("columns", [4, 37])
@pytest.mark.parametrize("form", FORMS)
def test_a_residual_that_tma_does_not_read(form: str, columns: int) -> None:
    """Threads read it where its rows are no multiple of 16 bytes, up to the group's end."""
    n, k = (40, columns) if form == "sums" else (columns, 40)
    whole = {"rows": (78, n), "columns": (n, 78), "sums": (3, n, k)}[form]
    x, w, ends = given((5, 0, 70), n, k, behind=3, matrix="kn", ranks=FORMS[form])
    rest = torch.randint(-3, 4, whole).bfloat16()
    rank = ", ".join(["-1"] * len(whole))
    text = grouped(
        f"r = fd.define_tensor(shape=[{rank}], dtype=DataType.BFloat16)",
        "p = fd.ops.grouped_mm(x, w, o)", "t = fd.ops.add(p, r)",
        "d = fd.ops.cast(t, dtype=DataType.BFloat16)", "fd.add_output(d)",
        matrix="kn", ranks=FORMS[form],
    )  # fmt: skip
    (d,) = wsched.compile(text, [x, w, ends, rest])(x, w, ends, rest)
    wanted = product(x, w, ends)
    inside = tuple(slice(n) for n in wanted.shape)
    assert torch.equal(d[inside], (wanted + rest[inside].float()).bfloat16())


def test_as_many_biases_as_matrices() -> None:
    with pytest.raises(InputError) as e:
        wsched.grouped_mm(X, W, ENDS, bias=[torch.zeros(2, 16)] * 2, epilogue=relu)
    assert str(e.value) == "bias has 2 tensors, w has 1"


def test_rows_by_index() -> None:
    """The rows of groups are those of x that an index says, of either width."""
    x, w, ends = given((5, 9, 70), 40, 32)
    rows = torch.randint(0, 20, (84,))
    wanted = product(x[:20][rows], w, ends).bfloat16()
    for index in (rows, rows.int()):
        assert torch.equal(wsched.grouped_mm(x[:20], w, ends, rows=index), wanted)


@pytest.mark.parametrize("k", [40, 1])
def test_a_table_by_columns_is_turned(k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who selects from it as it lies reads what is nobody's for a row that there is not."""
    x, w, ends = given((5, 9, 70), 32, k)
    turned, rows = (
        torch.empty_strided((20, k), (1, 20), dtype=x.dtype),
        torch.randint(-1, 20, (84,)),
    )
    turned.copy_(x[:20])
    taken = torch.where(rows[:, None] >= 0, x[:20][rows.clamp(min=0)], 0)
    seen = []
    execute = wsched.execute

    def told(text: str, inputs: Any) -> Any:
        seen.append(inputs[0].stride())
        return execute(text, inputs)

    monkeypatch.setattr("wsched.front.grouped._AGAIN", Again())
    monkeypatch.setattr("wsched.front.again.execute", told)
    found = wsched.grouped_mm(turned, w, ends, rows=rows)
    assert torch.equal(found, product(taken, w, ends).bfloat16())
    assert seen == [(k, 1)]


@pytest.mark.parametrize("strides", [(40, 1), (43, 1), (1, 20)])
@pytest.mark.parametrize(("n", "k"), [(32, 40), (2, 1), (33, 1), (1, 1), (1, 3), (32, 9)])
def test_rows_by_index_are_never_left_to_nvfuser(
    n: int, k: int, strides: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads in front of the table, or behind it, for a row that there is not."""
    asked: list[Any] = []
    monkeypatch.setattr("wsched.front.grouped._AGAIN", Again())
    monkeypatch.setattr("wsched.front.again.execute", lambda *given: [asked.append(given)])
    x = torch.empty_strided((20, k), strides, dtype=torch.bfloat16)
    w, rows = torch.empty(3, k, n, dtype=x.dtype), torch.zeros(84, dtype=torch.int64)
    wsched.grouped_mm(x, w, torch.tensor([5, 14, 84], dtype=torch.int32), rows=rows)
    (text, inputs) = asked[0]
    told = str(wsched.explain(text, [t.to("meta") for t in inputs], gpu="H200"))
    assert "wsched: v0, v1 -> v2: index_select" in told and "nvfuser: " not in told


@pytest.mark.parametrize(
    ("form", "change", "said"),
    [
        ("rows", lambda r: r.float(), "rows is torch.float32"),
        ("rows", lambda r: r[None], "rows has shape [1, 84]"),
        ("columns", lambda r: r, "rows of x by index where groups are columns"),
        ("rows", lambda r: 3, "rows is a int, not a torch.Tensor"),
        (
            "rows",
            lambda r: r[:80],
            "offsets are [5, 14, 84], which do not rise from 0 to at most 80",
        ),
    ],
)
def test_rows_by_no_index(form: str, change: Any, said: str) -> None:
    x, w, ends = given((5, 9, 70), 40, 32, ranks=FORMS[form])
    with pytest.raises(InputError) as error:
        wsched.grouped_mm(x, w, ends, rows=change(torch.arange(84)))
    assert str(error.value).startswith(said), str(error.value)


def add(ops: Operations, d: Any, r: Any) -> Any:
    return ops.add(d, r)


def test_one_input_is_not_its_rows() -> None:
    x, w, ends = given((5, 9, 70), 40, 32)
    r = torch.ones(84, 40).bfloat16()
    found = wsched.grouped_mm(x, w, ends, epilogue=add, inputs=r)
    assert torch.equal(found, wsched.grouped_mm(x, w, ends, epilogue=add, inputs=[r]))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"bias": torch.ones(40)}, "bias has 1 dimensions"),
        ({"bias": torch.ones(3, 1, 40)}, "bias has 3 dimensions"),
        ({"bias": 1.0}, "bias is a float, not a torch.Tensor"),
        ({"inputs": 2.0, "epilogue": add}, "inputs is a float, not a torch.Tensor"),
        ({"epilogue": "relu"}, "the epilogue is a str, not a function"),
        ({"epilogue": add}, "the epilogue is given the operations and 1 tensors: missing a req"),
    ],
)
def test_other_arguments_that_are_none(more: Any, said: str) -> None:
    """A bias for each column was read as a number for each group."""
    x, w, ends = given((5, 9, 70), 40, 32)
    with pytest.raises(InputError) as error:
        wsched.grouped_mm(x, w, ends, **more)
    assert str(error.value).startswith(said), str(error.value)


@pytest.mark.parametrize("form", FORMS)
def test_a_definition_with_a_bias_for_columns(form: str) -> None:
    x, w, ends = given((5, 9, 70), 40, 32, ranks=FORMS[form])
    lines = ("b = fd.define_tensor(shape=[-1], dtype=DataType.BFloat16)",
             "d = fd.ops.grouped_mm(x, w, o, bias=b)", "fd.add_output(d)")  # fmt: skip
    with pytest.raises(InputError, match="a bias of 1 dimensions, which has a row for each group"):
        text = grouped(*lines, ranks=FORMS[form])
        wsched.execute(text, [x, w, ends, torch.ones(40).bfloat16()])


@pytest.mark.parametrize(("made", "kind"), [(None, "NoneType"), (1.0, "float"), ((), "tuple")])
def test_an_epilogue_that_gives_no_result(made: Any, kind: str) -> None:
    """Of layers of experts, too."""
    x, w, ends = given(SIZES["hard"], 40, 56)
    tokens, weights = torch.zeros(4, 1, dtype=torch.int32), torch.ones(4, 1)
    down = torch.randn(len(w), 56, 40).bfloat16()
    calls = (
        lambda: wsched.grouped_mm(x, w, ends, epilogue=lambda ops, d: made),
        lambda: wsched.moe(x[:4], tokens, weights, w, down, epilogue=lambda ops, d: made),
    )
    for call in calls:
        with pytest.raises(InputError) as error:
            call()
        assert str(error.value) == (
            f"the epilogue gives a {kind}, not what one of its operations gives"
        )


@dataclass
class _Unhashable:
    factor: float = 2.0

    def __call__(self, ops: Any, d: Any) -> Any:
        return ops.mul(d, self.factor)


def _refused(**change: Any) -> str:
    x, w, ends = given((5, 3), 8, 16)
    arguments = {"x": x, "w": w, "offsets": ends} | change
    with pytest.raises(InputError) as error:
        wsched.grouped_mm(**arguments)
    return str(error.value)


def test_epilogues_that_nobody_keeps_or_writes() -> None:
    assert _refused(epilogue=_Unhashable()) == (
        "the epilogue is a _Unhashable, which has no hash: its definition is kept for it"
    )
    assert _refused(epilogue=lambda ops, d: Ref("zz")) == (
        "the epilogue gives zz, which none of its operations gives"
    )
    assert _refused(epilogue=lambda ops, d: ops.mul(d, 1j)) == (
        "fd.ops.mul is given 1j, a complex number"
    )


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_tensors_that_are_no_arrays() -> None:
    sparse = torch.eye(16).bfloat16().to_sparse()
    ends = torch.tensor([5, 8], dtype=torch.int32).to_sparse()
    assert _refused(x=sparse) == "x is a tensor of layout torch.sparse_coo, not torch.strided"
    assert _refused(offsets=ends).startswith("offsets is a tensor of layout torch.sparse_coo")
    nested = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(3, 3)])
    assert _refused(w=nested) == "w is a tensor of layout nested, not torch.strided"
