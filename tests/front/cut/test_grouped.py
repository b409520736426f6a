"""Definitions with grouped matmuls and more: each is a kernel, what stands between them is not."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import wsched
from tests.grouped import FORMS, WEIGHTS, given, grouped, product

MLP = grouped(
    f"u = {WEIGHTS}", f"v = {WEIGHTS}",
    "g = fd.ops.grouped_mm(x, w, o)", "g = fd.ops.cast(g, dtype=DataType.Float)",
    "h = fd.ops.grouped_mm(x, u, o)", "s = fd.ops.silu(g)", "f = fd.ops.mul(s, h)",
    "m = fd.ops.cast(f, dtype=DataType.BFloat16)", "d = fd.ops.grouped_mm(m, v, o)",
    "fd.add_output(d)",
)  # fmt: skip
"""Experts with a gate, as they stand in nvFuser's tests."""
BACKWARD = grouped(
    "y = fd.define_tensor(shape=[-1, -1], dtype=DataType.BFloat16)",
    "s = fd.ops.permute(x, dims=[1, 0])", "t = fd.ops.permute(w, dims=[0, 2, 1])",
    "dw = fd.ops.grouped_mm(s, y, o)", "dx = fd.ops.grouped_mm(y, t, o)",
    "fd.add_output(dw)", "fd.add_output(dx)", matrix="kn",
)  # fmt: skip
"""Gradients of a layer of experts, from that of its result."""
GATHERED = grouped(
    "i = fd.define_tensor(shape=[-1], dtype=DataType.Int)",
    "y = fd.ops.index_select(x, i, dim=0)",
    "d = fd.ops.grouped_mm(y, w, o)", "p = fd.define_tensor(shape=[-1], dtype=DataType.Int)",
    "f = fd.ops.cast(d, dtype=DataType.Float)", "s = fd.ops.index_select(f, p, dim=0)",
    "r = fd.ops.relu(s)", "fd.add_output(r)",
)  # fmt: skip
"""Rows by index in front of a product, and rows of the product."""


def mlp() -> tuple[list[Any], Any]:
    """Inputs of the experts, and what comes out."""
    x, w, ends = given((5, 0, 70), 40, 32)
    u, v = w.flip(0), torch.randint(-2, 3, (3, 24, 40)).bfloat16().mT
    gate, up = product(x, w, ends), product(x, u, ends).bfloat16().float()
    made = (torch.nn.functional.silu(gate) * up).bfloat16()
    return [x, w, ends, u, v], product(made, v, ends)


def test_experts_are_two_kernels() -> None:
    """Gate and up in one, down in the other; nothing is left."""
    inputs, wanted = mlp()
    told = wsched.explain(MLP, inputs)
    text = str(told)
    assert "1. wsched: x, w, o, u -> m: 2 grouped_mm" in text
    assert "2. wsched: o, v, m -> d: grouped_mm" in text
    assert "3. " not in text.partition("\nmatmuls:")[0]
    (d,) = wsched.execute(MLP, inputs)
    assert torch.allclose(d.float(), wanted, atol=0.5, rtol=1e-2)


def test_rows_by_index_are_sweeps_of_their_own() -> None:
    """In front of the product and behind it; nothing is left for others."""
    x, w, ends = given((5, 0, 70), 40, 32)
    inputs = [x[:20], w, ends, torch.randint(0, 20, (75,)), torch.randperm(75)[:33]]
    told = str(wsched.explain(GATHERED, inputs)).partition("\nmatmuls:")[0]
    assert "1. wsched: x, i -> y: index_select" in told
    assert "2. wsched: w, o, y -> d: grouped_mm" in told
    assert "3. wsched: d, p -> r: cast, index_select, relu" in told
    (r,) = wsched.execute(GATHERED, inputs)
    d = product(x[:20][inputs[3]], w, ends).bfloat16()
    assert torch.equal(r, d.float()[inputs[4]].relu())


def test_rows_by_a_column_of_an_index() -> None:
    """Selected by a view, as each of a token's choices is."""
    text = GATHERED.replace(
        "p = fd.define_tensor(shape=[-1]", "q = fd.define_tensor(shape=[-1, -1]"
    )
    text = text.replace(
        "    f = fd.ops.cast", "    p = fd.ops.select(q, 1, dim=1)\n    f = fd.ops.cast"
    )
    x, w, ends = given((5, 0, 70), 40, 32)
    inputs = [x[:20], w, ends, torch.randint(0, 20, (75,)), torch.randperm(75)[:66].view(33, 2)]
    told = str(wsched.explain(text, inputs)).partition("\nmatmuls:")[0]
    assert "q by select at [1, 1]" in told and "torch: " not in told
    (r,) = wsched.execute(text, inputs)
    d = product(x[:20][inputs[3]], w, ends).bfloat16()
    assert torch.equal(r, d.float()[inputs[4][:, 1]].relu())


OPERANDS = {
    "ends of 64 bits": ("o", ("o = fd.ops.cast(o64, dtype=DataType.Int32)",)),
    "wide bias": ("b", ("b = fd.ops.cast(b32, dtype=DataType.BFloat16)",)),
    "part of a bias": ("b", ("b = fd.ops.slice(bb, start_indices=[0, 1], end_indices=[3, 41])",)),
    "rows of batches": ("x", ("x = fd.ops.reshape(x3, new_shape=[75, 32])",)),
    "matrices as one": ("w", ("w = fd.ops.reshape(w2, new_shape=[3, 32, 40])",)),
    "transposed of one": ("w", ("v = fd.ops.reshape(wt, new_shape=[3, 40, 32])",
                                "w = fd.ops.permute(v, dims=[0, 2, 1])")),
    "groups inside": ("w", ("w = fd.ops.permute(wp, dims=[1, 0, 2])",)),
}  # fmt: skip
"""What is made of inputs by a cast or views, and how."""


@pytest.mark.parametrize("name", OPERANDS)
def test_operands_that_casts_and_views_make(name: str) -> None:
    """Views are read where they lie, the rest is made in front: none takes the kernel away."""
    made, lines = OPERANDS[name]
    x, w, ends = given((5, 0, 70), 40, 32, matrix="kn")
    bias = torch.randint(-2, 3, (3, 40)).bfloat16()
    inputs = {"x": (x, "BFloat16"), "w": (w, "BFloat16"), "o": (ends, "Int32"),
              "b": (bias, "BFloat16")}  # fmt: skip
    before = {"o64": (ends.long(), "Int"), "b32": (bias.float(), "Float"),
              "bb": (torch.nn.functional.pad(bias, (1, 1)), "BFloat16"),
              "x3": (x.view(5, 15, 32), "BFloat16"), "w2": (w.view(96, 40), "BFloat16"),
              "wt": (w.mT.reshape(120, 32), "BFloat16"),
              "wp": (w.transpose(0, 1).contiguous(), "BFloat16")}  # fmt: skip
    (source,) = (k for k in before if f"({k}," in lines[0])
    inputs[source] = before[source]
    del inputs[made]
    declared = (f"{n} = fd.define_tensor(shape={[-1] * t.dim()}, dtype=DataType.{dtype})"
                for n, (t, dtype) in inputs.items())  # fmt: skip
    body = (*declared, *lines, "d = fd.ops.grouped_mm(x, w, o, bias=b)", "fd.add_output(d)")
    text = "def nvfuser_fusion(fd : FusionDefinition) -> None :\n"
    text += "".join(f"    {line}\n" for line in body)
    tensors = [t for t, _ in inputs.values()]
    parts = str(wsched.explain(text, tensors)).partition("\nmatmuls:")[0]
    assert "-> d: " in next(p for p in parts.splitlines() if "grouped_mm" in p and "wsched: " in p)
    (d,) = wsched.execute(text, tensors)
    added = bias.repeat_interleave(torch.tensor([5, 0, 70]), 0).float()
    assert torch.equal(d, (product(x, w, ends) + added).bfloat16())


def test_ends_that_a_rest_makes_for_others_and_reads() -> None:
    """They have a name of their own there, by which the product that is left is priced too."""
    text = grouped(
        "p = fd.define_tensor(shape=[-1], dtype=DataType.Int32)",
        "b = fd.define_tensor(shape=[-1, -1], dtype=DataType.BFloat16, stride_order=[0, 1])",
        "q = fd.ops.slice(p, start_indices=[1], end_indices=[4])",
        "d = fd.ops.grouped_mm(x, w, q, bias=b)", "e = fd.ops.grouped_mm(d, w, q)",
        "fd.add_output(e)", matrix="kn",
    )  # fmt: skip
    x, w, ends = given((5, 0, 70), 32, 32, matrix="kn")
    bias = torch.randint(-2, 3, (32, 3)).bfloat16().mT
    inputs = [x, w, ends, torch.nn.functional.pad(ends, (1, 0)), bias]
    told = str(wsched.explain(text, inputs))
    assert "torch: x, w, p, b -> q, d: slice" in told and "wsched: w, q, d -> e: grouped_mm" in told
    (e,) = wsched.execute(text, inputs)
    d = product(x, w, ends) + bias.repeat_interleave(torch.tensor([5, 0, 70]), 0).float()
    assert torch.equal(e, product(d.bfloat16(), w, ends).bfloat16())


def test_a_backward_pass_is_two_kernels() -> None:
    """Gradients of the weights are sums over groups, those of the rows have groups of rows."""
    x, w, ends = given((5, 0, 70), 40, 32, matrix="kn")
    y = torch.randint(-2, 3, (75, 40)).bfloat16()
    told = str(wsched.explain(BACKWARD, [x, w, ends, y]))
    assert told.partition("\nmatmuls:")[0].count("wsched: ") == 2
    dw, dx = wsched.execute(BACKWARD, [x, w, ends, y])
    assert torch.equal(dw, product(x.mT, y, ends).bfloat16())
    assert torch.equal(dx, product(y, w.mT, ends).bfloat16())


@pytest.mark.sampled
@pytest.mark.parametrize("form", FORMS)
def test_what_is_left_of_other_forms(form: str) -> None:
    """Sizes of results are known in front of a call, also of a product that is nobody's kernel."""
    lines = ("e = fd.ops.grouped_mm(x, w, o)", "f = fd.ops.cast(e, dtype=DataType.Float)",
             "c = fd.ops.cumsum(f, dim=0)", "fd.add_output(c)")  # fmt: skip
    x, w, ends = given((5, 0, 70), 40, 32, matrix="kn", ranks=FORMS[form])
    text = grouped(*lines, matrix="kn", ranks=FORMS[form])
    (d,) = wsched.execute(text, [x, w, ends])
    assert torch.equal(d, product(x, w, ends).bfloat16().float().cumsum(0))
    shapes = [torch.empty_like(t, device="meta") for t in (x, w, ends)]
    assert "wsched: x, w, o -> " in str(wsched.explain(text, shapes, gpu="H200"))


@pytest.mark.parametrize("form", FORMS)
def test_a_live_definition(form: str) -> None:
    nvfuser = pytest.importorskip("nvfuser_direct")
    kinds = nvfuser.DataType
    with nvfuser.FusionDefinition() as fd:
        x, w = (
            fd.define_tensor(shape=[-1] * n, contiguity=[True] * n, dtype=kinds.BFloat16)
            for n in FORMS[form]
        )
        ends = fd.define_tensor(shape=[-1], contiguity=[True], dtype=kinds.Int32)
        product_ = fd.ops.grouped_mm(x, w, ends)
        fd.add_output(fd.ops.cast(fd.ops.relu(product_), dtype=kinds.Float))
    x, w, ends = given((5, 0, 70), 40, 32, matrix="kn", ranks=FORMS[form])
    inputs = [x.contiguous(), w, ends]
    assert "_grouped_" in wsched.compile(fd, inputs).kernel.name
    (d,) = wsched.execute(fd, inputs)
    assert torch.equal(d, product(*inputs).bfloat16().float().relu())


def test_nvfuser_calls_aten_for_each_group() -> None:
    """So that of many small groups it takes the time of calls, whatever the rows."""
    kinds = (torch.bfloat16, torch.bfloat16, torch.int32)
    shapes = ((4096, 4096), (128, 4096, 1536), (128,))
    inputs = [torch.empty(s, dtype=d, device="meta") for s, d in zip(shapes, kinds, strict=True)]
    told = wsched.explain(grouped(matrix="kn"), inputs, gpu="H200")
    assert "matmul by cuBLAS 4313.6" in str(told)
    rest = torch.empty(128, 1536, 512, dtype=torch.bfloat16, device="meta")
    both = [inputs[0], inputs[1], inputs[2], inputs[1], rest]
    assert "2 kernels of wsched's" in str(wsched.explain(MLP, both, gpu="H200"))
