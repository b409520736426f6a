"""Tensors of torch that a script makes for its definition."""

from __future__ import annotations

import pytest

from lowering.ground.errors import UnsupportedError
from wsched.importer import record_text


def declared(lines: str, like: str) -> dict[str, object]:
    """How ``fd.from_pytorch`` of an expression is declared in a script that begins so."""
    text = f"{lines}\nwith FusionDefinition() as fd:\n    x = fd.from_pytorch({like})\n"
    (node,) = record_text(text + "    fd.add_output(fd.ops.neg(x))\n").inputs
    return dict(node.kwargs)


MADE = [
    ("a = torch.randn(4, 1, 6)", "a", (-1, 1, -1), (2, 1, 0), "Float"),
    ("a = torch.randn(4, 6, dtype=torch.bfloat16).t()", "a", (-1, -1), (0, 1), "BFloat16"),
    ("a = [torch.zeros((2, 3), dtype=torch.half)]", "a[0]", (-1, -1), (1, 0), "Half"),
    ("n, k = 8, 16\na = torch.ones(n, k).half().T", "a", (-1, -1), (0, 1), "Half"),
    ("a = torch.randint(0, 9, (5,))", "a", (-1,), (0,), "Int"),
    ("a = torch.randint(9, (5, 2))", "a", (-1, -1), (1, 0), "Int"),
    ("a = torch.full((4, 4), 1.5).to(torch.bfloat16)", "a", (-1, -1), (1, 0), "BFloat16"),
    ("a = torch.empty(4, 6)\nb = torch.randn_like(a)", "b.view(2, -1)", (-1, -1), (1, 0), "Float"),
    ("a = torch.rand(4, 6, 8)", "a.permute(2, 0, 1)", (-1, -1, -1), (0, 2, 1), "Float"),
    ("a = torch.rand(4, 6).as_strided(size=(6, 4), stride=(1, 6))", "a", (-1, -1), (0, 1), "Float"),
]


@pytest.mark.parametrize(("lines", "like", "shape", "order", "dtype"), MADE)
def test_inputs_like_tensors_of_the_script(
    lines: str, like: str, shape: tuple[int, ...], order: tuple[int, ...], dtype: str
) -> None:
    found = declared(lines, like)
    assert found["shape"] == shape and found["stride_order"] == order
    assert str(found["dtype"]) == dtype or getattr(found["dtype"], "name", "") == dtype


@pytest.mark.parametrize(
    ("tensor", "contiguity"),
    [
        ("torch.randn(4, 6, 8)", (True, True, True)),
        ("torch.randn(4, 1, 8)", (True, None, True)),
        ("torch.randn(4, 6).t()", (True, True)),
        ("torch.randn(4, 6).as_strided((4, 3), (6, 1))", (False, True)),
        ("torch.randn(4, 6, 8).as_strided((4, 3, 8), (48, 8, 1))", (False, True, True)),
    ],
)
def test_rows_that_lie_one_behind_the_other(tensor: str, contiguity: object) -> None:
    assert declared(f"a = {tensor}", "a")["contiguity"] == contiguity


def test_static_sizes() -> None:
    assert declared("a = torch.randn(4, 6)", "a, static_sizes=True")["shape"] == (4, 6)


@pytest.mark.parametrize(
    "lines",
    [
        "a = load('a.pt')",
        "a = torch.randn(size())",
        "a = torch.randn(4, 6).cross(1)",
        "a = torch.randn(4, 6).permute(0, 0)",
        "a = torch.randn(4, 6).t().view(3, 8)",
        "a = torch.eye(4)",
        "a = torch.randn(4, 6)\na = torch.randn(5, 6)",
    ],
)
def test_what_a_script_does_not_tell_stays_open(lines: str) -> None:
    text = f"{lines}\nwith FusionDefinition() as fd:\n    x = fd.from_pytorch(a)\n"
    definition = record_text(text + "    fd.add_output(fd.ops.neg(x))\n")
    with pytest.raises(UnsupportedError, match=r"`a\.shape`, which the text gives no value"):
        definition.check_complete()


def test_sizes_of_a_tensor_are_numbers() -> None:
    text = (
        "a = torch.randn(4, 6)\n"
        "def f(fd: FusionDefinition, flat: bool = True) -> None:\n"
        "    x = fd.define_tensor([24] if flat else list(a.shape), dtype=DataType.Half)\n"
        "    y = fd.ops.reshape(x, [a.size(0), a.shape[1]])\n"
        "    fd.add_output(fd.ops.broadcast(y, [True] * a.dim() + [False] * a.ndim))\n"
    )
    x, y, z = record_text(text).nodes
    assert x.get("shape") == (24,)
    assert y.get("new_shape", y.operands[-1]) == (4, 6)
    assert (True, True, False, False) in (*z.operands, *(v for _, v in z.kwargs))
