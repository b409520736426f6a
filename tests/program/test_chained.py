"""Programs of kernels alone, whose launches are kept together: on the machine, as on a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import wsched
from lowering.ground.dtypes import DType
from lowering.ground.expr import Var
from tests.front.cut.features import torch
from tests.front.cut.test_halves import definition, inputs
from tests.program.host_scratch import HostScratch, chains_that_run, installed
from wsched.doors.fallback import interpret
from wsched.front import known
from wsched.importer import record_text
from wsched.importer.sweep import import_sweep
from wsched.program import chained, prepare
from wsched.program.keep import Keep
from wsched.program.program import Buffer, CallStep, Program, SweepStep
from wsched.program.scratch import Scratch
from wsched.run.compiled import CompiledFusion
from wsched.run.unscheduled import Unscheduled


@pytest.fixture(autouse=True)
def host(monkeypatch: pytest.MonkeyPatch) -> Iterator[HostScratch]:
    """The machine, on which no call keeps memory behind its end."""
    monkeypatch.setattr(known, "_texts", {})
    monkeypatch.setattr(prepare, "_CHAINED", ("cpu",))
    memory = installed(monkeypatch)
    yield memory
    assert not memory.taken


@pytest.fixture
def chains(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    return chains_that_run(monkeypatch)


def text(*lines: str) -> str:
    body = (f"    {line}" for line in lines)
    return "\n".join(["def nvfuser_fusion(fd : FusionDefinition) -> None :", *body, ""])


def matrix(name: str, dtype: str = "BFloat16") -> str:
    dense = "shape=[-1, -1], contiguity=[True, True]"
    return f"{name} = fd.define_tensor({dense}, dtype=DataType.{dtype})"


LAYERS = text(
    *map(matrix, ("x", "v", "w", "u")),
    "a = fd.ops.linear(x, v)",
    "b = fd.ops.linear(a, w)",
    "s = fd.ops.cast(fd.ops.neg(b), dtype=DataType.BFloat16)",
    "c = fd.ops.linear(s, u)",
    "fd.add_output(c)",
    "fd.add_output(a)",
)
IN_PLACE = text(
    *map(matrix, ("x", "v", "w")),
    matrix("g", "Float"),
    "a = fd.ops.linear(x, v)",
    "b = fd.ops.linear(a, w)",
    "s = fd.ops.add(g, fd.ops.cast(b, dtype=DataType.Float))",
    "fd.add_output(s, g)",
    "fd.add_output(s)",
)
HEADS = text(
    *map(matrix, ("x", "v", "w")),
    "a = fd.ops.linear(x, v)",
    "h = fd.ops.permute(fd.ops.reshape(a, new_shape=[24, 2, 16]), dims=[1, 0, 2])",
    "y = fd.ops.linear(a, w)",
    "fd.add_output(h)",
    "fd.add_output(y)",
)
AT_ONCE = text(
    *map(matrix, ("x", "v", "w")),
    matrix("g", "Float"),
    "a = fd.ops.linear(x, v)",
    "s = fd.ops.add(g, fd.ops.cast(a, dtype=DataType.Float))",
    "h = fd.ops.cast(s, dtype=DataType.BFloat16)",
    "c = fd.ops.linear(h, w)",
    "fd.add_output(s, g)",
    "fd.add_output(c)",
)
CASES = {
    "layers": (LAYERS, ((24, 32), (32, 32), (32, 32), (48, 32)), 0),
    "in_place": (IN_PLACE, ((24, 32), (32, 32), (48, 32), (24, 48)), 1),
    "in_place_at_once": (AT_ONCE, ((24, 32), (32, 32), (48, 32), (24, 32)), 1),
    "heads": (HEADS, ((24, 32), (32, 32), (16, 32)), 0),
}  # fmt: skip


def inputs_of(name: str) -> list[Any]:
    _, shapes, wide = CASES[name]
    generator = torch.Generator().manual_seed(0)
    made = [torch.randint(-1, 2, s, generator=generator) / 4 for s in shapes]
    count = len(made) - wide
    return [t.bfloat16() if at < count else t.float() for at, t in enumerate(made)]


def both_same(found: Any, wanted: Any) -> bool:
    """Of the results of ``LAYERS``."""
    (c, a), (d, b) = found, wanted
    return torch.equal(c, d) and torch.equal(a, b)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_further_calls_are_the_first_one(name: str, chains: list[Any]) -> None:
    given, results = CASES[name][0], list[Any]()
    for _ in range(3):
        inputs = inputs_of(name)
        made = wsched.execute(given, inputs)
        results.append([(t.clone(), t.stride()) for t in (*made, *inputs)])
        if name == "in_place":
            assert made[0] is inputs[3]
    assert len(chains) == 2 and chains[0] is chains[1]
    for later in results[1:]:
        for (a, lies), (b, like) in zip(results[0], later, strict=True):
            assert torch.equal(a, b) and lies == like


def test_what_lies_between_shares_memory_and_results_do_not(chains: list[Any]) -> None:
    inputs = inputs_of("layers")
    for _ in range(2):
        c, a = wsched.execute(LAYERS, inputs)
    (chain,) = chains
    assert 24 * 32 * 2 <= chain._scratch.nbytes < 3 * 24 * 32 * 2
    assert sum(len(stage.new) for stage in chain._stages) == 2
    assert c.untyped_storage().data_ptr() != a.untyped_storage().data_ptr()
    again = chain(inputs)
    assert both_same(again, (c, a)) and again[0] is not c
    assert [r.whole for r in chain._results] == [True] * 2  # what was allocated, no views of it


@pytest.mark.slow
def test_launches_are_packed_once_for_addresses(
    chains: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = list[Any]()
    for kind in (CompiledFusion, Unscheduled):
        real = kind.packed

        def noted(self: Any, inputs: Any, outputs: Any, real: Any = real) -> Any:
            packed.append(self)
            return real(self, inputs, outputs)

        monkeypatch.setattr(kind, "packed", noted)
    inputs = inputs_of("layers")
    wsched.execute(LAYERS, inputs)
    wsched.execute(LAYERS, inputs)
    (chain,) = chains
    memory = [new() for stage in chain._stages for new in stage.new]
    packed.clear()
    new = [lambda t=t: t for t in memory]
    fixed = chained.Chain(len(inputs), chain._scratch, new, chain._steps, chain._results)
    first = [t.clone() for t in fixed(inputs)]
    count = len(packed)
    assert count == len(chain._steps) and both_same(fixed(inputs), first)
    assert len(packed) == count  # the same addresses
    other = [inputs[0].clone(), *inputs[1:]]
    assert both_same(fixed(other), first)
    assert len(packed) == count + 1  # of the first step alone


LAST_ALONE = LAYERS.replace("    fd.add_output(a)\n", "")


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        pytest.param(
            LAST_ALONE, ["take", "launch", "launch", "new", "launch"], id="the last makes it"
        ),
        pytest.param(
            LAYERS, ["take", "new", "launch", "launch", "new", "launch"], id="the first makes one"
        ),
        pytest.param(
            AT_ONCE, ["take", "new", "launch", "launch"], id="the first writes an input"
        ),
    ],
)  # fmt: skip
def test_the_first_kernels_wait_for_what_they_need(
    given: str, wanted: list[str], chains: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory that only later kernels need is allocated behind the launches of those in front."""
    events = list[str]()
    inputs = inputs_of("in_place_at_once" if given is AT_ONCE else "layers")
    for _ in range(2):
        right = [t.clone() for t in wsched.execute(given, inputs)]
    (chain,) = chains

    def noted(event: str, call: Any) -> Any:
        return lambda *a: (events.append(event), call(*a))[1]

    for kind in (CompiledFusion, Unscheduled):
        real = kind.packed
        monkeypatch.setattr(kind, "packed", lambda *a, real=real: noted("launch", real(*a)))
    monkeypatch.setattr(Scratch, "take", noted("take", Scratch.take))
    monkeypatch.setattr(Scratch, "give_back", noted("give back", Scratch.give_back))
    for step in chain._steps:
        step.launches.clear()
    memory = [new() for stage in chain._stages for new in stage.new]
    new = [noted("new", lambda t=t: t) for t in memory]
    again = chained.Chain(len(inputs), chain._scratch, new, chain._steps, chain._results)
    again(inputs)
    packed = ["take", *["new"] * len(new), *["launch"] * len(chain._steps), "give back"]
    assert events == packed
    events.clear()
    made = again(inputs)
    assert events == [*wanted, "give back"]
    assert made is not None and (given is AT_ONCE or all(map(torch.equal, made, right)))


def test_what_is_kept_is_read_like_inputs(chains: list[Any]) -> None:
    """Tables of positions, which no call makes but the first."""
    rotary = definition(tables=True)
    for seed in range(3):
        x, *weights = inputs(tables=True)
        given = [x * (seed + 1), *weights]
        wanted = interpret(record_text(rotary), given)
        for a, b in zip(wsched.execute(rotary, given), wanted, strict=True):
            assert torch.equal(a, b)
    assert len(chains) == 2


def test_what_a_kernel_makes_anew_is_not_chained(
    chains: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CompiledFusion, "packed", lambda self, inputs, outputs: None)
    inputs = inputs_of("layers")
    results = [wsched.execute(LAYERS, inputs) for _ in range(3)]
    assert len(chains) == 1  # which found out, and nobody asked again
    assert both_same(results[2], results[0])


def test_what_a_first_call_forgets() -> None:
    """Of a tensor how it lay is left, of that the same, of a number nothing."""
    tensor = torch.arange(24.0).view(4, 6)[1:, ::2]
    values = chained.Values([0.5, tensor])
    for _ in range(2):
        values[0] = values[1] = None
        was = values[1]
        assert values[0] is None and was.memory == tensor.untyped_storage().data_ptr()
        assert (was.past, was.device, was.like.device.type) == (6, tensor.device, "meta")
        assert (was.like.shape, was.like.stride()) == ((3, 3), (6, 2))


@pytest.mark.parametrize("first", [0, 4])
@pytest.mark.parametrize("whole", [False, True])
def test_a_value_within_other_memory(first: int, whole: bool) -> None:
    """From an element of the root's on, in strides of its own; the root itself where it is that."""
    root = torch.arange(40.0)[first:]
    like = torch.empty_strided((2, 3), (6, 2), device="meta")
    found = chained._Lies(1, 8, like, whole).of([torch.zeros(1), root])
    if whole:
        assert found is root
        return
    assert torch.equal(found, root.as_strided((2, 3), (6, 2), first + 2))
    assert found.data_ptr() == root.data_ptr() + 8
    weight = root.clone().requires_grad_()
    assert not chained._Lies(0, 8, like, whole).of([weight]).requires_grad
    half = torch.empty_strided((3,), (2,), dtype=torch.bfloat16, device="meta")
    narrow = chained._Lies(0, 6, half, False).of([root])
    assert narrow.data_ptr() == root.data_ptr() + 6 and narrow.stride() == (2,)


X, Z = (Buffer(name, DType.F32, (Var("M"), Var("N"))) for name in "xz")
Y = Buffer("y", DType.F32, (Var("N"), Var("M")))


@pytest.mark.parametrize(
    ("reads", "stable", "view", "known"),
    [
        ((X,), True, lambda x: x.t(), True),
        ((X,), False, lambda x: x.t(), False),  # it may be another one in the next call
        ((X, Z), True, lambda x: x.t(), False),  # of which of them?
        ((X,), True, lambda x: x.t().clone(), False),
        ((X,), True, lambda x: x.t().view(torch.int32), False),
    ],
)
def test_a_step_that_is_no_kernel_is_a_view(
    reads: tuple[Buffer, ...], stable: bool, view: Any, known: bool
) -> None:
    """Of the memory of the one value that it reads, in each call."""
    x, z = torch.arange(12.0).view(3, 4), torch.zeros(3, 4)
    program = Program((X, Z), (CallStep("view", reads, (Y,), stable=stable),), (Y,))
    made = chained.chained(program, {}, [x, z, view(x)])
    assert (made is not None) is known
    if made is not None:
        other = x + 1
        (found,) = made([other, z]) or ()
        assert torch.equal(found, other.t()) and found.data_ptr() == other.data_ptr()


def test_what_only_kept_steps_read_is_not_kept(chains: list[Any]) -> None:
    """Calls behind the first one have no memory of it, and need none."""
    w, made, kept, x, y = (Buffer(n, DType.F32, (Var("M"), Var("N"))) for n in "wabxy")
    added = matrix("x", "Float"), matrix("b", "Float"), "y = fd.ops.add(x, b)", "fd.add_output(y)"
    steps = (
        CallStep("double", (w,), (made,)), CallStep("double", (made,), (kept,)),
        SweepStep("sum", import_sweep(record_text(text(*added))), (x, kept), (y,)),
    )  # fmt: skip

    class Sum:
        """A kernel that adds."""

        def packed(self, inputs: Any, outputs: Any) -> Any:
            return lambda: torch.add(*inputs, out=outputs[0])

        def repeated(self) -> Any:
            return lambda inputs: [torch.add(*inputs)]

    weight, given = torch.arange(6.0).view(2, 3), torch.ones(2, 3)
    doubled: dict[str, Any] = {"double": lambda read: [2 * read[0]]}
    run = prepare.prepare(
        Program((w, x), steps, (y,)), {"sum": Sum()}, doubled, [weight, given], keep=Keep((0,), 2)
    )
    for _ in range(3):
        (found,) = run([weight, given])
        assert torch.equal(found, 4 * weight + given)
    assert len(chains) == 2
