"""Definitions that are one kernel and go another way all the same, whoever is asked."""

from __future__ import annotations

import pytest

import wsched
from wsched.choose.gpus import GPUS
from wsched.front.explain import explain_definition
from wsched.front.sizes import Extents, extents_for

torch = pytest.importorskip("torch", reason="torch is not installed")

HEAD = """\
def nvfuser_fusion(fd : FusionDefinition) -> None :
    x = fd.define_tensor(shape=[{x}], contiguity=[{dense}], dtype=DataType.BFloat16{order})
    w = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)
    y = fd.ops.linear(x, w)
"""
MATRIX = HEAD.format(x="-1, -1", dense="True, True", order="")
BATCH = HEAD.format(x="-1, -1, -1", dense="True, True, True", order=", stride_order=[2, 0, 1]")

W = torch.randn(40, 32).bfloat16()
X = torch.randn(3, 24, 32).bfloat16()


@pytest.mark.parametrize(
    ("text", "x", "strides", "route"),
    [
        (MATRIX + "    fd.add_output(fd.ops.relu(y))\n", X[0], (40, 1), "wsched"),
        (MATRIX + "    fd.add_output(fd.ops.permute(y, dims=[1, 0]))\n", X[0], (1, 40), "cut"),
        (
            MATRIX + "    z = fd.ops.permute(y, dims=[1, 0])\n"
            "    fd.add_output(fd.ops.stride_order(z, stride_order=[1, 0]))\n",
            X[0], (24, 1), "wsched",
        ),
        # the rows of x are its fastest dimension, and so of what is made of it
        (BATCH + "    fd.add_output(fd.ops.relu(y))\n", X.mT.contiguous().mT, (960, 1, 24), "cut"),
        (BATCH + "    fd.add_output(y)\n", X.mT.contiguous().mT, (960, 40, 1), "wsched"),
    ],
)  # fmt: skip
def test_results_lie_as_nvfusers(
    text: str, x: torch.Tensor, strides: tuple[int, ...], route: str
) -> None:
    (found,) = wsched.execute(text, [x, W])
    explained = wsched.explain(text, [x, W])
    assert (found.stride(), explained.route) == (strides, route)
    if route == "cut":
        (reason,) = (r.reason for r in explained.refusals if r.what == "wsched")
        assert reason.endswith("lies in another order in memory than nvFuser's")


GATED = """\
def nvfuser_fusion(fd : FusionDefinition) -> None :
    x = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)
    v = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)
    w = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)
    g = fd.ops.silu(fd.ops.cast(fd.ops.linear(x, v), dtype=DataType.Float))
    fd.add_output(fd.ops.mul(g, fd.ops.linear(x, w)))
"""


@pytest.mark.parametrize(("columns", "depth", "route"), [(64, 16384, "cut"), (4096, 512, "wsched")])
def test_two_products_that_are_faster_apart(columns: int, depth: int, route: str) -> None:
    """Long and few: two kernels that split K, for inputs and for sizes alike."""
    shapes = (128, depth), (columns, depth), (columns, depth)
    inputs = [torch.empty(shape, dtype=torch.bfloat16, device="meta") for shape in shapes]
    sizes = Extents(128, columns, depth)
    found = [
        wsched.explain(GATED, inputs, gpu="H200"),
        explain_definition(
            GATED, str(GPUS["H200"]), lambda fusion: extents_for(fusion, sizes).problem(fusion, 132)
        ),
    ]
    assert [e.route for e in found] == [route, route]
    if route == "cut":
        for explained in found:
            (reason,) = (r.reason for r in explained.refusals if r.what == "wsched")
            assert reason.startswith("2 products in one kernel take ")
