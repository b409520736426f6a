"""``wsched.execute`` inside of ``torch.compile``: a whole graph, with the results of a call."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

import wsched
from lowering.ground.errors import UnsupportedError
from tests.schedules import definition
from wsched.front import traced as module
from wsched.importer.input_error import InputError
from wsched.schedule.matmul.params import MatmulParams

torch: Any = pytest.importorskip("torch")

PARAMS = MatmulParams(grid_traversal_factor=(4, 1))
SCALED = """
def f(fd: FusionDefinition):
    x = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)
    w = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)
    s = fd.define_scalar(dtype=DataType.Double)
    b = fd.define_tensor(shape=[-1], contiguity=[True], dtype=DataType.BFloat16)
    y = fd.ops.add(fd.ops.mul(fd.ops.linear(x, w), s), b)
    fd.add_output(fd.ops.cast(y, dtype=DataType.BFloat16))
    fd.add_output(y)
"""
COLUMNS = definition().replace(
    "fd.add_output(d)", "fd.add_output(fd.ops.stride_order(d, stride_order=[0, 1]))"
)
CUT = definition().replace(
    "fd.add_output(d)",
    "e = fd.ops.cast(d, dtype=DataType.Float)\n"
    "    fd.add_output(fd.ops.sum(fd.ops.exp(e), dims=[1], keepdim=True))\n"
    "    fd.add_output(fd.ops.permute(d, dims=[1, 0]))",
)
TORCHS = """
def f(fd: FusionDefinition):
    x = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.Float)
    fd.add_output(fd.ops.permute(x, dims=[1, 0]))
    fd.add_output(fd.ops.add(x, 1.0))
"""


@pytest.fixture(autouse=True)
def fresh() -> Any:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def matrix(*shape: int, seed: int = 0, dtype: Any = torch.bfloat16) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def operands(m: int = 40, n: int = 64, k: int = 72) -> list[Any]:
    return [matrix(m, k), matrix(n, k, seed=1)]


def compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    made: Callable[..., Any] = torch.compile(
        function, backend="aot_eager", fullgraph=True, **options
    )
    return made


def same(found: Any, expected: Any) -> None:
    assert len(found) == len(expected)
    for x, y in zip(found, expected, strict=True):
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        assert torch.equal(x, y)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("text", [definition(), COLUMNS, CUT, TORCHS])
def test_a_graph_is_whole(text: str) -> None:
    inputs = [matrix(24, 40, dtype=torch.float32)] if text is TORCHS else operands()

    def function(*inputs: Any) -> Any:
        return wsched.execute(text, [inputs[0] + 1, *inputs[1:]])

    expected = function(*inputs)
    found = compiled(function)(*inputs)
    same(found, expected)
    if text is COLUMNS:
        assert found[0].stride() == expected[0].stride() == (1, 40)


def test_numbers_and_several_results() -> None:
    x, w = operands()
    inputs = [x, w, 2.5, matrix(64, seed=2)]
    same(compiled(lambda *inputs: wsched.execute(SCALED, inputs))(*inputs),
         wsched.execute(SCALED, inputs))  # fmt: skip


COMPUTED = """
def f(fd: FusionDefinition):
    x = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.Float)
    s = fd.define_scalar(None, dtype=DataType.Double)
    n = fd.define_scalar(None, dtype=DataType.Int)
    c = fd.ops.full([8], fill_value=fd.ops.sqrt(fd.ops.add(s, 1.5)), dtype=DataType.Float)
    i = fd.ops.iota(fd.ops.add(n, 2), 0, 1, dtype=DataType.Int)
    y = fd.ops.mul(x, fd.ops.broadcast(c, is_broadcast_dim=[True, False]))
    fd.add_output(fd.ops.mul(y, n))
    fd.add_output(fd.ops.cumsum(i, 0))
"""


@pytest.mark.parametrize("dynamic", [False, True, None])
def test_numbers_that_others_are_computed_of(dynamic: bool | None) -> None:
    """A length says what shape a result has; any number may vary from call to call."""
    function = torch.compile(
        lambda x, s, n: wsched.execute(COMPUTED, [x, s, n]),
        backend="aot_eager", fullgraph=True, dynamic=dynamic,
    )  # fmt: skip
    x = matrix(4, 8, dtype=torch.float32)
    for inputs in ([x, 2.5, 3], [x, 3.5, 3], [x, 3.5, 5]):
        same(function(*inputs), wsched.execute(COMPUTED, inputs))


@pytest.mark.sampled
@pytest.mark.parametrize(
    "options", [{"params": PARAMS}, {"batch_invariant": True}, {"constants": [1]}]
)
def test_options(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_asked", {})
    expected = wsched.execute(definition(), operands(), **options)
    found = compiled(lambda *inputs: wsched.execute(definition(), inputs, **options))(*operands())
    same(found, expected)
    (told,) = module._asked.values()
    asked = told.options
    assert all(asked[k] == (tuple(v) if k == "constants" else v) for k, v in options.items())


def test_another_definition_is_another_graph() -> None:
    function = compiled(lambda text, *inputs: wsched.execute(text, inputs))
    relu = definition().replace("add_output(d)", "add_output(fd.ops.relu(d))")
    for text in (definition(), relu, definition()):
        same(function(text, *operands()), wsched.execute(text, operands()))


def test_a_schedule() -> None:
    schedule = wsched.Schedule.of(definition(), MatmulParams(), operands())
    expected = wsched.execute(schedule, operands())
    same(compiled(lambda *inputs: wsched.execute(schedule, inputs))(*operands()), expected)


def test_a_live_definition() -> None:
    nvfuser = pytest.importorskip("nvfuser_direct")
    with nvfuser.FusionDefinition() as fd:
        x, w = (
            fd.define_tensor(
                shape=[-1, -1], contiguity=[True, True], dtype=nvfuser.DataType.BFloat16
            )
            for _ in range(2)
        )
        fd.add_output(fd.ops.linear(x, w))
    expected = wsched.execute(definition(), operands())
    same(compiled(lambda *inputs: wsched.execute(fd, inputs))(*operands()), expected)


@pytest.mark.slow
def test_dynamic_shapes_are_one_graph() -> None:
    graphs = []

    def backend(graph: Any, _: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    function = torch.compile(
        lambda *inputs: wsched.execute(definition(), inputs)[0] * 2,
        backend=backend, fullgraph=True, dynamic=True,
    )  # fmt: skip
    for m, n, k in ((40, 64, 72), (24, 16, 48), (130, 80, 32)):
        x = operands(m, n, k)
        assert torch.equal(function(*x), wsched.execute(definition(), x)[0] * 2)
    assert len(graphs) == 1
    assert sum(n.target is torch.ops.wsched.execute for n in graphs[0].graph.nodes) == 1


def test_gradients_stop_as_in_eager_mode() -> None:
    x, w = (t.requires_grad_() for t in operands())
    (found,) = compiled(lambda *inputs: wsched.execute(definition(), inputs))(x, w)
    assert not wsched.execute(definition(), [x, w])[0].requires_grad
    assert not found.requires_grad


def test_results_alias_nothing() -> None:
    x = matrix(24, 40, dtype=torch.float32)
    turned, _ = compiled(lambda x: wsched.execute(TORCHS, [x]))(x)
    before = x.clone()
    turned.zero_()
    assert torch.equal(x, before)


def test_the_operator_is_one_that_torch_believes() -> None:
    """Schema, fake kernel and the real one agree, in strides too."""
    for text in (COLUMNS, CUT):
        name = module._name(text, 0, 0, (True, True), False, ())
        torch.library.opcheck(
            torch.ops.wsched.execute, (name, operands(), []),
            test_utils=("test_schema", "test_faketensor"),
        )  # fmt: skip


@pytest.mark.slow
def test_the_name_is_the_same_in_each_process() -> None:
    """Graphs that Inductor keeps on disk have it."""
    code = (
        "import sys; from wsched.front.traced import _name; "
        "print(_name(sys.argv[1], 0, 0, (True, True), False, ()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, definition()], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == module._name(definition(), 0, 0, (True, True), False, ())


@pytest.mark.slow
def test_programs_that_never_compile_do_not_import_dynamo() -> None:
    code = "import sys, wsched; wsched.execute; sys.exit('torch._dynamo' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_parameters_that_dynamo_has_not_made() -> None:
    stand_in = object.__new__(MatmulParams)
    with pytest.raises(UnsupportedError) as e:
        module._name(definition(), 0, id(stand_in), (True, True), False, ())
    assert str(e.value) == (
        "params that are made inside of what torch.compile traces is not supported; supported: "
        "params made outside of it"
    )


def test_what_is_not_supported_says_so() -> None:
    text = definition().replace("fd.ops.linear(x, w)", "fd.ops.lineer(x, w)")
    with pytest.raises(
        Exception, match=r"fd\.ops\.lineer is not .* Did you mean fd\.ops\.linear\?"
    ):
        compiled(lambda *inputs: wsched.execute(text, inputs))(*operands())


def test_inputs_that_do_not_fit() -> None:
    with pytest.raises(Exception, match=r"input 1 is torch\.float32, the definition "):
        compiled(lambda x, w: wsched.execute(definition(), [x, w.float()]))(*operands())


def test_an_eager_call_does_not_come_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_asked", {})
    wsched.execute(definition(), operands())
    with pytest.raises(InputError):
        wsched.execute(definition(), [])
    with pytest.raises(UnsupportedError):
        wsched.execute("", [])
    assert module._asked == {}


WRITTEN = """
def f(fd: FusionDefinition):
    x = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)
    s = fd.define_scalar(dtype=DataType.Double)
    w = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)
    r = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)
    d = fd.ops.linear(x, w)
    e = fd.ops.cast(fd.ops.add(fd.ops.mul(d, s), r), dtype=DataType.BFloat16)
    fd.add_output(e, r)
    fd.add_output(d)
"""
RETURNED = WRITTEN.replace("fd.add_output(d)", "fd.add_output(d)\n    fd.add_output(e)")


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize("text", [WRITTEN, RETURNED, WRITTEN.replace("fd.add_output(d)", "")])
def test_results_that_are_written_into_inputs(text: str) -> None:
    """The graph goes on with what was written, and the caller has it."""
    x, w = operands()

    def function(r: Any) -> Any:
        before = r * 1
        return [*wsched.execute(text, [x, 0.5, w, r]), before + r]

    held, columns = matrix(40, 64, seed=2), matrix(64, 40, seed=2).T
    for residual in (held, columns):
        eager, graph = residual.clone(), residual.clone()
        same(compiled(function)(graph), function(eager))
        assert torch.equal(graph, eager) and not torch.equal(graph, residual)
    given = torch.nn.Parameter(held.clone())
    with pytest.raises(Exception, match="input 3 requires gradients, and what is written into it"):
        compiled(function)(given)
    assert torch.equal(given, held)
    with torch.no_grad():
        same(compiled(function)(given), function(held))


@pytest.mark.sampled
@pytest.mark.parametrize("given", ["d", "x", "d, x"])
def test_results_that_are_listed_twice_or_inputs(given: str) -> None:
    """An operator's results may be neither an input nor each other."""
    outputs = "".join(f"    fd.add_output({n})\n" for n in (*given.split(", "), "d"))
    text = definition().replace("    fd.add_output(d)\n", outputs)
    a, b = operands()
    same(compiled(lambda: wsched.execute(text, [a, b]))(), wsched.execute(text, [a, b]))


def test_gradients_of_what_is_written_are_refused() -> None:
    x, w = operands()
    r = matrix(40, 64, seed=2)
    function = compiled(lambda x, r: wsched.execute(WRITTEN, [x, 0.5, w, r], gradients=True))
    same(function(x, r.clone()), wsched.execute(WRITTEN, [x, 0.5, w, r.clone()], gradients=True))
    text = "line 9: the output e, which is written into r, by what torch differentiates is not "
    for call in (function, lambda x, r: wsched.execute(WRITTEN, [x, 0.5, w, r], gradients=True)):
        with pytest.raises(Exception, match=text):
            call(x.clone().requires_grad_(), r.clone())
