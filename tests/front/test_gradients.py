"""``gradients=True``: those that torch gives for the same operations, eager and compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import wsched
from lowering.ground.errors import UnsupportedError
from tests.schedules import definition
from wsched.front import api
from wsched.front import traced as module

torch: Any = pytest.importorskip("torch")

TWO = """
def f(fd: FusionDefinition):
    x = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)
    w = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)
    s = fd.define_scalar(dtype=DataType.Double)
    b = fd.define_tensor(shape=[-1], contiguity=[True], dtype=DataType.BFloat16)
    d = fd.ops.linear(x, w)
    y = fd.ops.add(fd.ops.mul(fd.ops.tanh(d), s), b)
    fd.add_output(fd.ops.cast(y, dtype=DataType.Float))
    fd.add_output(fd.ops.relu(d))
"""
"""A number among the inputs, two results of two types."""


def torchs(x: Any, w: Any, s: float, b: Any) -> tuple[Any, Any]:
    d = torch.nn.functional.linear(x, w)
    return torch.tanh(d.float()) * s + b.float(), torch.relu(d)


def given() -> list[Any]:
    draw = torch.Generator().manual_seed(0)
    shapes = (24, 40), (32, 40), (32,)
    x, w, b = (torch.randn(*s, generator=draw).bfloat16().requires_grad_() for s in shapes)
    return [x, w, 0.5, b]


def differentiated(call: Callable[..., Any]) -> list[Any]:
    """Gradients of a weighted sum of the results."""
    inputs = given()
    weight = torch.arange(32.0)
    sum((r.float() * weight).sum() for r in call(*inputs)).backward()
    return [t.grad for t in inputs if hasattr(t, "grad")]


@pytest.fixture
def compiled() -> Any:
    torch._dynamo.reset()
    yield lambda f: torch.compile(f, backend="aot_eager", fullgraph=True)
    torch._dynamo.reset()


def executed(*inputs: Any) -> list[Any]:
    return wsched.execute(TWO, inputs, gradients=True)


def test_they_are_torchs() -> None:
    found, wanted = differentiated(executed), differentiated(torchs)
    for got, expected in zip(found, wanted, strict=True):
        assert got.dtype == torch.bfloat16
        error = (got.float() - expected.float()).norm() / expected.float().norm()
        assert error < 1e-2


def test_the_results_are_those_of_a_kernel() -> None:
    x, w, *_ = given()
    (d,) = wsched.execute(definition(), [x, w], gradients=True)
    assert d.requires_grad
    assert torch.equal(d.detach(), wsched.execute(definition(), [x, w])[0])


@pytest.mark.slow
def test_a_compiled_graph_has_the_same(compiled: Any) -> None:
    found, wanted = differentiated(compiled(executed)), differentiated(executed)
    assert all(torch.equal(a, b) for a, b in zip(found, wanted, strict=True))


def test_who_does_not_ask_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """And where nothing is recorded a call is the one without gradients."""
    inputs = given()
    assert not any(r.requires_grad for r in wsched.execute(TWO, inputs))
    monkeypatch.setattr(api, "traced", None)
    with torch.no_grad():
        assert not any(r.requires_grad for r in executed(*inputs))
    plain = [t.detach() if hasattr(t, "detach") else t for t in inputs]
    assert not any(r.requires_grad for r in executed(*plain))


def test_of_inputs_that_ask_for_them_only() -> None:
    x, w, s, b = given()
    executed(x.detach(), w, s, b.detach())[1].sum().backward()
    assert w.grad is not None and x.grad is None and b.grad is None


def test_a_result_that_nothing_depends_on() -> None:
    """The second one does not depend on b: its gradient there is zero."""
    x, w, s, b = given()
    _, second = executed(x, w, s, b)
    (found,) = torch.autograd.grad(second.sum(), [b], allow_unused=True)
    assert torch.equal(found, torch.zeros_like(b))


def test_a_batch_invariant_kernel_and_a_schedule_have_them_too() -> None:
    x, w, *_ = given()
    wanted = torch.autograd.grad(torch.nn.functional.linear(x, w).sum(), [w])[0]
    schedule = wsched.Schedule.of(definition(), wsched.MatmulParams())
    for what, options in ((definition(), {"batch_invariant": True}), (schedule, {})):
        (d,) = wsched.execute(what, [x, w], gradients=True, **options)
        assert torch.equal(torch.autograd.grad(d.sum(), [w])[0], wanted)


def test_integers_have_none() -> None:
    text = TWO.replace("s = fd.define_scalar(dtype=DataType.Double)", "s = 2.0").replace(
        "b = fd.define_tensor(shape=[-1], contiguity=[True], dtype=DataType.BFloat16)",
        "b = fd.define_tensor(shape=[-1], contiguity=[True], dtype=DataType.Int32)",
    )
    x, w, *_ = given()
    b = torch.arange(32, dtype=torch.int32)
    first, _ = wsched.execute(text, [x, w, b], gradients=True)
    first.sum().backward()
    assert x.grad is not None and w.grad is not None and b.grad is None


def test_what_torch_cannot_evaluate_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wsched.front.gradients.unknown_ops", lambda _: ("rope",))
    x, w, *_ = given()
    with pytest.raises(UnsupportedError) as caught:
        wsched.execute(definition(), [x, w], gradients=True)
    assert str(caught.value) == (
        "gradients of fd.ops.rope is not supported; supported: those of operations that torch has"
    )


def test_the_operator_is_one_that_torch_believes() -> None:
    """Schema, fake kernel and the real one agree; so does the derivative."""
    inputs = given()
    tensors, numbers = [t for t in inputs if hasattr(t, "grad")], [inputs[2]]
    name = module._name(TWO, 0, 0, (True, True, False, True), False, ())
    grads = [torch.ones(24, 32), torch.ones(24, 32, dtype=torch.bfloat16)]
    checks = ("test_schema", "test_faketensor")
    plain = [t.detach() for t in tensors]
    torch.library.opcheck(
        torch.ops.wsched.gradients, (name, grads, plain, numbers), test_utils=checks
    )
    torch.library.opcheck(
        torch.ops.wsched.execute,
        (name, tensors, numbers),
        test_utils=(*checks, "test_autograd_registration"),
    )


def text_of(dtype: str, *lines: str) -> str:
    dense = f"shape=[-1, -1], contiguity=[True, True], dtype=DataType.{dtype}"
    body = *(f"{n} = fd.define_tensor({dense})" for n in "xw"), *lines
    return "def f(fd: FusionDefinition):\n" + "".join(f"    {line}\n" for line in body)


POINTWISE = text_of(
    "Double",
    "d = fd.ops.mul(fd.ops.mul(x, x), fd.ops.sin(w))",
    "fd.add_output(d)",
    "fd.add_output(fd.ops.add(x, w))",
)


@pytest.mark.parametrize("same", [False, True], ids=["two tensors", "one twice"])
def test_gradients_of_gradients(same: bool) -> None:
    x, w = (torch.rand(3, 4, dtype=torch.float64, requires_grad=True) for _ in range(2))

    def call(*given: Any) -> tuple[Any, ...]:
        return tuple(wsched.execute(POINTWISE, [2 * given[0], given[-1]], gradients=True))

    assert torch.autograd.gradcheck(call, (x,) if same else (x, w))
    assert torch.autograd.gradgradcheck(call, (x,) if same else (x, w))


def test_gradients_of_gradients_are_the_kernels_too() -> None:
    x, w, *_ = given()
    (d,) = wsched.execute(definition(), [x, w], gradients=True)
    (g,) = torch.autograd.grad(d.float().square().sum(), [x], create_graph=True)
    (found,) = torch.autograd.grad(g.float().sum(), [w])
    y = torch.nn.functional.linear(x, w)
    (g,) = torch.autograd.grad(y.float().square().sum(), [x], create_graph=True)
    (wanted,) = torch.autograd.grad(g.float().sum(), [w])
    assert torch.equal(found, wanted)


@pytest.mark.parametrize(
    "transformed",
    [
        lambda f, x: torch.func.grad(f)(x),
        lambda f, x: torch.func.jacrev(f)(x),
        lambda f, x: torch.func.jvp(f, (x,), (x,)),
    ],
    ids=["grad", "jacrev", "jvp"],
)
def test_transforms_are_refused(transformed: Any) -> None:
    x = torch.rand(3, 4, dtype=torch.float64)
    with pytest.raises(UnsupportedError) as caught:
        transformed(lambda x: wsched.execute(POINTWISE, [x, x], gradients=True)[0].sum(), x)
    assert str(caught.value) == (
        "gradients inside of torch.func's grad, vjp or jvp is not supported; supported: backward() "
        "and torch.autograd.grad, also with create_graph=True"
    )


def test_tangents_are_refused() -> None:
    forward_ad, x = torch.autograd.forward_ad, torch.rand(3, 4, dtype=torch.float64)
    with forward_ad.dual_level():
        wsched.execute(POINTWISE, [x, x], gradients=True)
        with pytest.raises(
            UnsupportedError, match=r"^gradients forwards, of inputs with a tangent"
        ):
            wsched.execute(POINTWISE, [x, forward_ad.make_dual(x, x)], gradients=True)


@pytest.mark.parametrize("again", [False, True], ids=["once", "again"])
def test_autocast_does_not_change_them(again: bool) -> None:
    torch.manual_seed(0)
    text = text_of("Float", "fd.add_output(fd.ops.linear(x, w))")
    x, w = torch.randn(24, 40, requires_grad=True), torch.randn(32, 40)

    def found() -> Any:
        (d,) = wsched.execute(text, [x, w], gradients=True)
        return torch.autograd.grad(d.square().sum(), [x], create_graph=again)[0]

    wanted = found()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(found(), wanted)
