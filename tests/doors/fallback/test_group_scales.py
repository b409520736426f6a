"""Linears whose weights have scales of groups of K, where torch computes them."""

from __future__ import annotations

from typing import Any

import pytest

import wsched
from lowering.ground.errors import UnsupportedError
from wsched.doors.fallback import rebuild
from wsched.doors.fallback.torch_ops import operations
from wsched.front import routes
from wsched.importer import record_text

torch = pytest.importorskip("torch", reason="torch is not installed")

N, K, GROUP = 24, 96, 64


def given() -> tuple[Any, Any, Any, Any]:
    draw = torch.Generator().manual_seed(1)
    x = torch.randn(2, 3, K, generator=draw).bfloat16()
    w = torch.randint(-99, 99, (N, K), generator=draw).to(torch.int8)
    return x, w, torch.rand(N, 2, generator=draw) + 0.5, torch.randn(N, generator=draw).bfloat16()


def exact(x: Any, w: Any, scale: Any) -> Any:
    return x.double() @ (w.double() * scale.double().repeat_interleave(GROUP, 1)[:, :K]).T


@pytest.mark.parametrize("biased", [False, True])
def test_linear(biased: bool) -> None:
    """The last group is what is left of K."""
    x, w, scale, bias = given()
    vector = bias if biased else None
    found = operations()["linear"](x, w.bfloat16(), vector, scale_b=scale, group=GROUP)
    wanted = exact(x, w, scale) + (bias.double() if biased else 0)
    assert found.dtype is torch.bfloat16 and (found - wanted).norm() < 3e-3 * wanted.norm()


def test_zero_points() -> None:
    x, w, scale, _ = given()
    zero = torch.randint(-9, 9, (N, 2), generator=torch.Generator().manual_seed(2)).float()
    found = operations()["linear"](
        x, w.bfloat16(), scale_b=scale, zero_b=zero, group=GROUP
    )  # fmt: skip
    wanted = exact(x, w - zero.repeat_interleave(GROUP, 1)[:, :K], scale)
    assert (found - wanted).norm() < 3e-3 * wanted.norm()


def batches(weights: str) -> str:
    """A linear of a batch, which no kernel of ours computes with scales of groups."""

    def tensor(rank: int, dtype: str) -> str:
        sizes, dense = ", ".join(["-1"] * rank), ", ".join(["True"] * rank)
        return f"fd.define_tensor(shape=[{sizes}], contiguity=[{dense}], dtype=DataType.{dtype})"

    return "\n    ".join((
        "def f(fd):", f"x = {tensor(3, 'BFloat16')}", f"q = {tensor(2, weights)}",
        f"s = {tensor(2, 'Float')}", "w = fd.ops.cast(q, dtype=DataType.BFloat16)",
        f"d = fd.ops.linear(x, w, scale_b=s, group={GROUP})", "fd.add_output(d)\n",
    ))  # fmt: skip


def test_batches_that_no_kernel_of_ours_computes() -> None:
    """Scales stand in products of matrices; ``execute`` leaves others to what is there."""
    x, w, scale, _ = given()
    (found,) = wsched.execute(batches("Int8"), [x, w, scale])
    wanted = exact(x, w, scale)
    assert (found - wanted).norm() < 3e-3 * wanted.norm()


def test_nvfuser_is_not_given_words_that_it_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU, where it is asked first: it takes no ``scale_b``, so torch computes."""
    pytest.importorskip("nvfuser_direct")
    x, w, scale, _ = given()
    text, eight = batches("Float8_e4m3fn"), (w / 16).to(torch.float8_e4m3fn)
    with pytest.raises(UnsupportedError) as error:
        rebuild(record_text(text))
    assert error.value.what.startswith("line 6: fd.ops.linear by nvFuser (")
    assert error.value.supported == "what nvFuser takes"
    monkeypatch.setattr(routes, "_on_gpu", lambda inputs: True)
    way = next(routes.routes(text, record_text(text), [x, eight, scale]))
    assert way.name == "torch"
    assert [r.what for r in way.refusals] == ["wsched", "cut", "nvfuser"]
    (found,) = way.run(text, [x, eight, scale])
    wanted = exact(x, eight, scale)
    assert (found - wanted).norm() < 3e-3 * wanted.norm()
