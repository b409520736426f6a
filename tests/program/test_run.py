"""Programs that run, on the machine: call by call, and bound to tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from lowering.ground.errors import UnsupportedError
from tests.program.programs import TEXT, kernels, plans, torch, whole
from wsched.importer.input_error import InputError
from wsched.program.bind import bind
from wsched.program.parse import parse_program
from wsched.program.prepare import prepare
from wsched.program.program import Buffer, CallStep, Program
from wsched.run.host import BoundLaunch

M, N, K, P = 20, 24, 37, 16


def integers(*shape: int, seed: int) -> Any:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-2, 3, shape, generator=generator).bfloat16()


def inputs(seed: int = 0) -> list[Any]:
    x, v, r = (
        integers(M, K, seed=seed),
        integers(P, N, seed=seed + 1),
        integers(M, P, seed=seed + 2),
    )
    w = torch.zeros(N, 40, dtype=torch.bfloat16)[:, :K]
    w.copy_(integers(N, K, seed=seed + 3))
    return [x, w, v, r, 0.5]


FUNCTIONS = {
    "scale": lambda given: [given[0] * given[1]],
    "widen": lambda given: [given[0].float()],
}


def expected(given: Sequence[Any]) -> Any:
    x, w, v, r, s = given
    g = (x.float() @ w.float().T).bfloat16() * s
    return (g.float() @ v.float().T + r.float()).bfloat16()


def test_calls_of_one_class() -> None:
    run = prepare(whole().program, kernels(), FUNCTIONS, inputs())
    for seed in (0, 10):
        given = inputs(seed)
        wanted, kept = expected(given), [t.clone() for t in given[:3]]
        y, z = run(given)
        assert torch.equal(y, wanted) and torch.equal(z, wanted.float())
        assert y is given[3]  # in its place
        assert all(map(torch.equal, given, kept))


@pytest.mark.parametrize("bound", [False, True])
def test_copies_are_run_by_who_is_given(bound: bool) -> None:
    given, seen = inputs(), list[tuple[Any, ...]]()
    wanted = expected(given)

    def copy(target: Any, source: Any) -> Any:
        seen.append((source.data_ptr(), tuple(target.shape)))
        return target.copy_(source)

    if bound:
        launch, (y, _) = bind(whole().program, kernels(), FUNCTIONS, given, None, copy)
        launch()
    else:
        y, _ = prepare(whole().program, kernels(), FUNCTIONS, given, copy)(given)
    assert torch.equal(y, wanted) and seen == [(given[0].data_ptr(), (M, K))]


def test_memory_goes_after_its_last_use() -> None:
    """``h`` is dead when the second kernel runs."""
    import gc
    import weakref

    seen: list[Any] = []

    def scale(given: Sequence[Any]) -> list[Any]:
        seen.append(weakref.ref(given[0]))
        return [given[0] * given[1]]

    class Residual:
        def repeated_into(self) -> Any:
            def run(given: Sequence[Any], out: Any) -> Any:
                gc.collect()
                assert seen[0]() is None
                return kernels()["residual"](*given, out=out)

            return run

    given: Any = {**kernels(), "residual": Residual()}
    prepare(whole().program, given, {**FUNCTIONS, "scale": scale}, inputs())(inputs())
    assert len(seen) == 1


@pytest.mark.parametrize("own", [False, True])
def test_bound(own: bool) -> None:
    given = inputs()
    z = torch.empty(M, P) if own else None
    outputs = None if z is None else [given[3], z]
    launch, (y, made) = bind(whole().program, kernels(), FUNCTIONS, given, outputs)
    assert y is given[3] and (not own or made is z)
    for seed in (0, 10):
        for tensor, fresh in zip(given[:4], inputs(seed), strict=False):
            tensor.copy_(fresh)
        wanted = expected(given)
        launch()
        assert torch.equal(y, wanted) and torch.equal(made, wanted.float())


def test_what_lies_between_the_steps_lives_as_long_as_the_launch() -> None:
    """A packed launch on a GPU knows addresses only; what holds the tensors is the program's."""
    import gc
    import weakref

    seen = list[Any]()

    class Addresses:
        """A kernel whose launches keep nothing of what they are packed for."""

        def __init__(self, of: Any) -> None:
            self.of = of

        def bind(self, *given: Any, out: Any = None) -> BoundLaunch:
            seen.extend(map(weakref.ref, (*given, *out)))
            return BoundLaunch(lambda: None, given, out)

    packed = {name: Addresses(k) for name, k in kernels().items()}
    launch, _ = bind(whole().program, packed, FUNCTIONS, inputs())  # type: ignore[arg-type]
    gc.collect()
    assert seen and all(r() is not None for r in seen)
    launch()


def test_what_lies_between_the_steps_is_one_allocation() -> None:
    """The copied operand and the results that only steps read; inputs and results lie apart."""
    seen = dict[int, set[int]]()

    class Seen:
        def __init__(self, number: int) -> None:
            self.number = number

        def bind(self, *given: Any, out: Any = None) -> BoundLaunch:
            between = (given[0], *out)[: 2 - self.number]  # the copy and the product; the factor's
            seen[self.number] = {t.untyped_storage().data_ptr() for t in between}
            return BoundLaunch(lambda: None, given, out)

    packed = {"matmul": Seen(0), "residual": Seen(1)}
    bind(whole().program, packed, FUNCTIONS, inputs())  # type: ignore[arg-type]
    assert len(seen[0] | seen[1]) == 1


def test_a_workspace_of_zeros_holds_zeros_for_each_launch() -> None:
    text = """\
program (x) -> (t) {
  x: f32[M]
  c: f32[M]
  t: f32[M] at c
  workspace c zeroed
  call add(c, x) -> t deterministic
}
"""
    program, x = parse_program(text, {}), torch.arange(5.0)
    functions = {"add": lambda given: [given[0] + given[1]]}
    run = prepare(program, {}, functions, [x])
    launch, (bound,) = bind(program, {}, functions, [x])
    for _ in range(2):
        assert torch.equal(run([x])[0], x)
        launch()
        assert torch.equal(bound, x)


def test_one_of_two_results_in_place_of_what_is_dead() -> None:
    text = """\
program (x) -> (t, u) {
  x: f32[M]
  d: f32[M]
  e: f32[M]
  t: f32[M] at d
  u: f32[M]
  call double(x) -> d
  call double(d) -> e
  call both(e) -> t, u
}
"""
    program, x = parse_program(text, {}), torch.arange(5.0)
    functions = {"double": lambda g: [g[0] * 2], "both": lambda g: [g[0] + 1, g[0] - 1]}
    t, u = prepare(program, {}, functions, [x])([x])
    assert torch.equal(t, 4 * x + 1) and torch.equal(u, 4 * x - 1)


def test_a_copy_in_place_of_what_is_dead() -> None:
    text = """\
program (x) -> (t) {
  x: f32[M]
  d: f32[M]
  e: f32[1]
  t: f32[M] at d
  call double(x) -> d
  call first(d) -> e
  copy x -> t
}
"""
    program, x = parse_program(text, {}), torch.arange(5.0)
    functions = {"double": lambda g: [g[0] * 2], "first": lambda g: [g[0][:1]]}
    assert torch.equal(prepare(program, {}, functions, [x])([x])[0], x)
    launch, (t,) = bind(program, {}, functions, [x])
    launch()
    assert torch.equal(t, x)


def test_a_function_may_return_tensors_that_lie_otherwise() -> None:
    """The kernel behind it looks at what it is given in every call."""
    text = TEXT.replace("copy x -> a", "call turn(x) -> a")
    program = parse_program(text, plans())
    turns = [False, True, False]

    def turn(given: Sequence[Any]) -> list[Any]:
        (x,) = given
        return [x.T.contiguous().T if turns.pop() else torch.nn.functional.pad(x, (0, 3))[:, :K]]

    functions = {**FUNCTIONS, "turn": turn}
    run = prepare(program, kernels(), functions, inputs())
    for _ in range(3):
        given = inputs()
        wanted = expected(given)
        assert torch.equal(run(given)[0], wanted)


def test_what_a_function_decides_cannot_be_bound() -> None:
    x, y = whole().x, Buffer("y")
    program = Program((x,), (CallStep("f", (x,), (y,)),), (y,))
    functions = {"f": lambda given: [given[0] + 1]}
    given = inputs()[:1]
    assert torch.equal(prepare(program, {}, functions, given)(given)[0], given[0] + 1)
    with pytest.raises(UnsupportedError) as e:
        bind(program, {}, functions, given)
    assert str(e.value) == (
        "binding y, whose type and shape call f(x) -> y decides is not supported; supported: "
        "buffers of a known type and shape"
    )


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda i: i[:4], "4 inputs, the definition has 5"),
        (lambda i: [i[0][0], *i[1:]], "input 0 has shape [37], the definition has 2 dimensions"),
        (
            lambda i: [i[0], i[1][:, :8], *i[2:]],
            "dimension 1 of input 1 is 8, the definition says 37",
        ),
    ],
)
def test_inputs_that_do_not_fit(change: Any, text: str) -> None:
    for ready in (prepare, bind):
        with pytest.raises(InputError) as e:
            ready(whole().program, kernels(), FUNCTIONS, change(inputs()))
        assert str(e.value) == text


def test_no_tensor_says_no_device() -> None:
    program = Program((Buffer("s"),), (), ())
    with pytest.raises(InputError, match="no tensor among the inputs"):
        prepare(program, {}, {}, [1.0])


BEHIND = """\
program (x, v, r) -> (y) {
  x: bf16[M, K]
  v: bf16[N, K]
  r: bf16[M, N]
  h: bf16[M, K]
  y: bf16[M, N]
  call same(x) -> hSTABLE
  kernel residual(h, v, r) -> y
}
"""


@pytest.mark.parametrize("stable", [False, True])
def test_kernels_behind_a_function_are_found_by_what_it_returns(stable: bool) -> None:
    """The class of the caller's own inputs is not looked at again."""
    lies, runs = ["rows"], list[Any]()

    def same(given: Sequence[Any]) -> list[Any]:
        (x,) = given
        return [x.clone() if lies[-1] == "rows" else x.T.contiguous().T]

    class Residual:
        def repeated(self) -> Any:
            seen = list[Any]()
            runs.append(seen)

            def run(given: Sequence[Any]) -> Any:
                h, v, r = given
                seen.append(h.stride())
                return [(h.float() @ v.float().T + r.float()).bfloat16()]

            return run

    text = BEHIND.replace("STABLE", " stable" if stable else "")
    program = parse_program(text, plans())
    x, v, r = integers(M, K, seed=0), integers(P, K, seed=1), integers(M, P, seed=2)
    kernel: Any = Residual()
    call = prepare(program, {"residual": kernel}, {"same": same}, [x, v, r])
    wanted = (x.float() @ v.float().T + r.float()).bfloat16()
    for how in ("rows", "rows", "columns", "rows", "columns")[: 2 if stable else None]:
        lies.append(how)
        assert torch.equal(call([x, v, r])[0], wanted)
    assert [len(seen) for seen in runs] == ([2] if stable else [3, 2])
    assert all(len(set(seen)) == 1 for seen in runs)
