"""What is made of constants alone is made once, and again where one of them has changed."""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from weakref import ref

import pytest

from lowering.ground.dtypes import DType
from lowering.ground.errors import ScheduleError
from lowering.ground.expr import ONE
from tests.front.cut.features import Feature, sizes_of
from tests.front.cut.norms import COMMUTE
from tests.front.cut.test_commute import error, exactly, inputs_of
from wsched import InputError, compile, execute, explain
from wsched.front import api
from wsched.front.cut import route
from wsched.front.cut.choose import choose
from wsched.front.cut.constants import with_kept
from wsched.front.cut.epilogues import Take
from wsched.front.cut.segments import Cutter
from wsched.front.known import known
from wsched.importer import record_text
from wsched.program.keep import Keep
from wsched.program.prepare import prepare
from wsched.program.program import Buffer, CallStep, Program

torch = pytest.importorskip("torch")

Runs = list[tuple[tuple[str, ...], Any]]
"""Names of what was made, and a weak reference to the first of it."""

TEXT = COMMUTE["norm"].text
GAMMA, WEIGHT = "t2", "t1"


@pytest.fixture(autouse=True)
def others_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rests are others', as those that are no sweeps: of small ones a sweep each time is less."""
    monkeypatch.setattr("wsched.front.cut.choose.with_sweeps", lambda graph, cut, *_: cut)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[Runs]:
    """What others' segments make, in the order in which they run; routes are found anew."""
    runs: Runs = []

    def counted(segment: Any, device: Any) -> Any:
        runs_by, function = original(segment, device)

        def run(values: Any) -> Any:
            results = function(values)
            runs.append((segment.outputs, ref(results[0])))
            return results

        return runs_by, run

    original = route.rest_by
    monkeypatch.setattr(route, "rest_by", counted)
    known(TEXT).routes.clear()
    yield runs
    known(TEXT).routes.clear()


def check(inputs: list[Any], constants: tuple[int, ...] = (1, 2)) -> None:
    (found,) = execute(TEXT, inputs, constants=constants)
    (wanted,) = exactly(record_text(TEXT), inputs)
    assert error(found, wanted) < 2**-7


def test_made_once(made: Runs) -> None:
    inputs = inputs_of(COMMUTE["norm"])
    for seed in range(3):
        check([inputs_of(COMMUTE["norm"], seed)[0], *inputs[1:]])
    assert len(made) == 1
    check(inputs, ())
    assert len(made) == 2 and made[0][0] != made[1][0]  # it normalises first


def set_item(t: Any) -> None:
    t[0] = 3.0


def other_memory(t: Any) -> None:
    t.data = t.data * 2


@pytest.mark.parametrize("at", [1, 2])
@pytest.mark.parametrize(
    "write",
    [
        lambda t: t.mul_(2),
        lambda t: t.view(-1)[:7].fill_(5),  # through a view
        lambda t: t.detach().neg_(),
        set_item,
        other_memory,
    ],
)
def test_a_write_is_noticed(at: int, write: Any, made: Runs) -> None:
    inputs = inputs_of(COMMUTE["norm"])
    check(inputs)
    write(inputs[at])
    for _ in range(2):
        check(inputs)
    assert len(made) == 2


@pytest.mark.parametrize("way", ["out", "bound", "in place"])
def test_a_write_of_a_kernel_is_noticed(way: str, made: Runs) -> None:
    inputs, dense = inputs_of(COMMUTE["norm"]), "shape=[-1, -1], contiguity=[True, True]"
    names = ("a", "b", "c") if way == "in place" else ("a", "b")
    text = "def nvfuser_fusion(fd : FusionDefinition) -> None :\n" + "".join(
        f"    {n} = fd.define_tensor({dense}, dtype=DataType.BFloat16)\n" for n in names
    )
    text += f"    fd.add_output(fd.ops.linear(a, b){', c' * (way == 'in place')})\n"
    a, b = torch.randn(24, 64).bfloat16(), torch.randn(64, 64).bfloat16()
    check(inputs)
    match way:
        case "out":
            compile(text, [a, b])(a, b, out=inputs[1])
        case "bound":
            compile(text, [a, b]).bind(a, b, out=inputs[1])()
        case _:
            execute(text, [a, b, inputs[1]])
    for _ in range(2):
        check(inputs)
    assert len(made) == 2


def test_layers_keep_their_own(made: Runs) -> None:
    """One definition with the weights of several layers, in turns."""
    layers = [inputs_of(COMMUTE["norm"], seed) for seed in range(3)]
    for inputs in (*layers, *layers):
        check(inputs)
    assert len(made) == 3


@pytest.mark.slow
def test_it_goes_with_its_constants(made: Runs) -> None:
    inputs = inputs_of(COMMUTE["norm"])
    inputs[1].requires_grad_()  # nothing is recorded that would hold it
    execute(TEXT, inputs, constants=(1, 2))
    gc.collect()
    ((_, result),) = made
    assert result() is not None
    inputs[2] = None
    gc.collect()
    assert result() is None


def test_constants_that_nothing_is_made_of(made: Runs) -> None:
    """Of gamma alone nothing is made; and as a variable the weight is multiplied in each call."""
    inputs = inputs_of(COMMUTE["norm"])
    for _ in range(2):
        check(inputs, (1,))
        check(inputs, (2,))
    assert len(made) == 4


def test_a_rest_of_both(made: Runs) -> None:
    """What would be one segment is two: a centred x in each call, two weights once."""
    text = """
        f = fd.ops.cast(t0, dtype=DataType.Float)
        s = fd.ops.sum(f, dims=[1], keepdim=True, dtype=DataType.Null)
        m = fd.ops.mul(s, 0.015625)
        d = fd.ops.sub(f, m)
        a = fd.ops.cast(d, dtype=DataType.BFloat16)
        r = fd.ops.exp(t1)
        c = fd.ops.cast(r, dtype=DataType.BFloat16)
        y = fd.ops.linear(a, c)
        e = fd.ops.sum(t2, dims=[0], keepdim=True, dtype=DataType.Null)
        n = fd.ops.mul(y, e)
        q = fd.ops.sum(n, dims=[1], keepdim=True, dtype=DataType.Null)
        o = fd.ops.div(n, q)
        fd.add_output(o)
    """
    feature = replace(COMMUTE["norm"], body=text, shapes=((40, 64), (24, 64), (24, 24)))
    inputs = [t.abs() for t in inputs_of(feature)]
    first, wanted = (
        execute(feature.text, inputs, constants=constants)[0] for constants in ((2, 1), ())
    )
    torch.testing.assert_close(first, wanted, rtol=2**-6, atol=2**-6)
    before = len(made)
    (again,) = execute(feature.text, inputs, constants=(1, 2))
    assert torch.equal(first, again)
    later = {n for names, _ in made[before:] for n in names}
    assert later.isdisjoint(("c", "e")) and later
    kept = [p for p in explain(feature.text, inputs, constants=(1, 2)).parts if p.kept]
    assert {n for p in kept for n in p.writes} == {"c", "e"}


def test_what_is_returned_is_not_kept() -> None:
    """A caller may write into it."""
    text = """
        f = fd.ops.mul(t1, t2)
        c = fd.ops.cast(f, dtype=DataType.BFloat16)
        y = fd.ops.linear(t0, c)
        fd.add_output(y)
        fd.add_output(c)
    """
    feature = replace(COMMUTE["norm"], body=text, shapes=((40, 64), (24, 64), (24, 64)))
    inputs = inputs_of(feature)
    first = execute(feature.text, inputs, constants=(1, 2))
    wanted = [t.clone() for t in first]
    first[1].zero_()
    assert all(map(torch.equal, execute(feature.text, inputs, constants=(1, 2)), wanted))


@pytest.mark.parametrize(
    ("rows", "columns", "k"), [(8192, 4096, 4096), (512, 14336, 4096), (2048, 4096, 4096)]
)
def test_priced_as_nothing(rows: int, columns: int, k: int) -> None:
    """With gamma folded it pays wherever it would without a gamma."""
    text = TEXT.replace("[40, 64]", f"[{rows}, {k}]")
    text = text.replace("[24, 64]", f"[{columns}, {k}]").replace("[64]", f"[{k}]")
    cutter = Cutter(record_text(text))
    call = sizes_of(cutter)
    before = choose(cutter, call, may_leave=False)
    after = choose(cutter, replace(call, constants=frozenset((WEIGHT, GAMMA))), may_leave=False)
    assert after.cutter is not cutter and after.cost.gpu_us < before.cost.gpu_us
    assert [s.kept for s in after.cut.segments].count(True) == 1


def test_explained() -> None:
    inputs = [torch.empty(s, dtype=torch.bfloat16) for s in ((40, 64), (24, 64), (64,))]
    text = str(explain(TEXT, inputs, gpu="H200", constants=(1, 2)))
    assert "once, then kept while t1, t2 stay as they are" in text
    assert "r of x scales the product, in fp32, t2 of it is in t1" in text
    assert "kept" not in str(explain(TEXT, inputs, gpu="H200"))
    parts = explain(TEXT, inputs, constants=(1, 2)).parts
    assert [p.kept for p in parts].count(True) == 1


@pytest.mark.parametrize("at", [3, -1, True, "1"])
def test_no_position(at: Any) -> None:
    inputs = inputs_of(COMMUTE["norm"])
    said = f"constants has {at!r}; it has positions of tensors among 3 inputs"
    for ask in (execute, explain):
        with pytest.raises(InputError, match=f"^{re.escape(said)}$"):
            ask(TEXT, inputs, constants=(at,))


def test_a_position_alone() -> None:
    inputs, alone = inputs_of(COMMUTE["norm"]), 1
    said = "constants is 1; it is a list of positions of tensors"
    for ask in (execute, explain):
        with pytest.raises(InputError, match=f"^{re.escape(said)}$"):
            ask(TEXT, inputs, constants=alone)  # type: ignore[operator]


def test_without_a_version() -> None:
    inputs = inputs_of(COMMUTE["norm"])
    with torch.inference_mode():
        inputs[2] = inputs[2].clone()
    said = (
        "input 2 is a constant made in torch.inference_mode, where versions are not counted; "
        "make it outside, or declare it no constant"
    )
    with pytest.raises(InputError, match=f"^{re.escape(said)}$"):
        execute(TEXT, inputs, constants=(1, 2))


A, B, C = (Buffer(n, DType.F32, (ONE,)) for n in "abc")
FIRST = CallStep("f", (A,), (C,))


@pytest.mark.parametrize(
    ("steps", "outputs", "constants", "said"),
    [
        ((CallStep("f", (A, B), (C,)),), (), (0,), "it is kept, and b is no constant"),
        (
            (CallStep("f", (A,), (replace(C, at=A),)),), (), (0,),
            "it is kept, and writes into other memory",
        ),
        (
            (FIRST, CallStep("f", (B,), (Buffer("d", DType.F32, (ONE,), at=C),))), (), (0,),
            "it lies at c, which is kept",
        ),
        ((FIRST,), (C,), (0,), "it is kept, and its reader may write it"),
    ],
)  # fmt: skip
def test_what_a_program_may_not_keep(
    steps: Any, outputs: Any, constants: tuple[int, ...], said: str
) -> None:
    program = Program((A, B), steps, outputs)
    with pytest.raises(ScheduleError, match=re.escape(said)) as e:
        prepare(program, {}, {}, [torch.zeros(1)] * 2, keep=Keep(constants, 1))
    assert e.value.rule == "keep"


def test_an_explanation_is_of_what_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the parts take is predicted of a call that has made them."""
    told, chosen = list[Any](), api.chosen_cut

    def noted(*args: Any, **more: Any) -> Any:
        told.append(more["constants"])
        return chosen(*args, **more)

    monkeypatch.setattr(api, "chosen_cut", noted)
    for constants in ((1, 2), ()):
        explain(TEXT, inputs_of(COMMUTE["norm"]), constants=constants)
    assert told == [(1, 2), ()]


OF_KEPT = """
    k = fd.ops.erfinv(t1)
    c = fd.ops.cast(k, dtype=DataType.BFloat16)
    y = fd.ops.linear(t0, c)
    e = fd.ops.lgamma(t2)
    f = fd.ops.add(c, e)
    d = fd.ops.mul(f, y)
    fd.add_output(d)
"""


def kept_of(feature: Feature, constants: str) -> list[str]:
    """The segments of a definition with these constants."""
    cutter = Cutter(record_text(feature.text))
    names = frozenset(constants.split())
    found = with_kept(cutter.graph, cutter.all(Take.NONE), names, {}).segments
    return [
        "matmul" if s.matmul
        else f"{'kept ' * s.kept}{', '.join(s.inputs)} -> {', '.join(s.outputs)}"
        for s in found
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("constants", "more", "wanted"),
    [
        ("t0", "", ["t1 -> c", "matmul", "t2, c, y -> d"]),
        ("t1", "", ["kept t1 -> c", "matmul", "t2, c, y -> d"]),
        ("t2", "", ["t1 -> c", "matmul", "kept t2 -> e", "c, y, e -> d"]),
        ("t1 t2", "", ["kept t1 -> c", "matmul", "kept t2, c -> f", "y, f -> d"]),
        ("t1 t2", "fd.add_output(f)",
         ["kept t1 -> c", "matmul", "kept t2 -> e", "c, y, e -> f, d"]),
        ("t1 t2", "fd.add_output(e, t2)", ["kept t1 -> c", "matmul", "t2, c, y -> e, d"]),
    ],
)  # fmt: skip
def test_what_is_kept_of_a_cut(constants: str, more: str, wanted: list[str]) -> None:
    """What reads constants and what is kept alone; but no result, which a caller may write into,
    and nothing of an input that is written into.
    """
    shapes = (24, 64), (24, 64), (24, 24)
    feature = replace(COMMUTE["norm"], body=OF_KEPT + more, shapes=shapes, wide=(2,))
    assert kept_of(feature, constants) == wanted


@pytest.mark.parametrize(
    ("dtype", "wanted"),
    [
        ("Double",
         ["kept t2 -> k, f", "y, k, f -> r", "kept f -> e", "z, e -> d"]),
        ("UInt64", ["t2, y -> f, r", "z, f -> d"]),
    ],
)  # fmt: skip
def test_what_is_made_of_what_could_not_be_kept_is_not(dtype: str, wanted: list[str]) -> None:
    """Between segments there is no tensor of a type that wsched has no word for."""
    body = f"""
        y = fd.ops.linear(t0, t1)
        z = fd.ops.linear(y, t3)
        j = fd.ops.erf(t2)
        k = fd.ops.cast(j, dtype=DataType.{dtype})
        f = fd.ops.erfinv(t2)
        p = fd.ops.mul(k, y)
        q = fd.ops.cast(p, dtype=DataType.Float)
        r = fd.ops.add(q, f)
        e = fd.ops.lgamma(f)
        d = fd.ops.mul(e, z)
        fd.add_output(r)
        fd.add_output(d)
    """
    shapes = (24, 64), (24, 64), (24, 24), (24, 24)
    feature = replace(COMMUTE["norm"], body=body, shapes=shapes, wide=(2,))
    assert [s for s in kept_of(feature, "t2") if s != "matmul"] == wanted
