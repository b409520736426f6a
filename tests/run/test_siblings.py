"""Kernels that share the groups of a matmul out: together they write every group once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

import wsched
from lowering.ground.errors import ScheduleError, UnsupportedError
from lowering.ground.expr import Var, evaluate
from lowering.ground.sharing import Sharing
from lowering.machine.adversary import Adversary
from tests.grouped import BIAS, FORMS, GATE, SIZES, check_rows, gated, given, grouped
from tests.run.test_grouped import SMALL
from tests.schedules import cooperative, dynamic, exchanged
from wsched.run.arguments import bind
from wsched.run.compiled import CompiledFusion
from wsched.run.cpu import run_on_cpu
from wsched.run.on_device import OnDevice
from wsched.run.results import add_outputs
from wsched.schedule.matmul.early import launched
from wsched.schedule.matmul.params import GroupShare, MatmulParams
from wsched.schedule.matmul.siblings import shared
from wsched.trace.timeline import Trace

KERNELS: dict[str, tuple[str, ...]] = {
    "two": ("ping-pong", "exchanged"),
    "three": ("two groups", "cooperative", "exchanged cluster"),
    "clusters": ("cluster", "exchanged cluster"),
    "near": ("40", "32", "24"),
    "near clusters": ("2 x 24", "40", "2 x 16"),
}
"""Rows of tiles: 64 and 16; 128, 64 and 16; 128 and 16; 40, 32 and 24, or 48, 40 and 32, of which
two kernels may have a group together."""

NEAR = {str(n): cooperative(64, n, 32, stages=2, groups=1, registers=None) for n in (40, 32, 24)}
PAIRS = {
    f"2 x {n}": cooperative(64, n, 32, stages=2, groups=1, registers=None, cluster=(1, 2))
    for n in (24, 16)
}
ALL = SMALL | {name: exchanged(p) for name, p in (NEAR | PAIRS).items()}

MORE = {
    **SIZES,
    "of each": (128, 64, 16, 17, 63, 65, 127, 129, 144, 80),
    "of two": (172, 0, 169, 101, 216, 208),
}


def params_of(name: str) -> MatmulParams:
    return shared(tuple(dynamic(ALL[n]) for n in KERNELS[name]))


def kernel(name: str, text: str = "") -> CompiledFusion:
    x, w, ends = given((1,), 8, 8)
    return wsched.compile(text or grouped(), [x, w, ends], params=params_of(name))


def written_by(k: OnDevice, inputs: tuple[Any, Any, Any], adversary: Adversary = "random") -> Any:
    """What one kernel alone writes, NaN elsewhere."""
    arguments = bind(k.fusion, inputs, k.vector)
    d = torch.full((len(inputs[0]), inputs[1].shape[-1]), float("nan"), dtype=inputs[0].dtype)
    add_outputs(k.fusion, k.kernel, k.vector, arguments, [d], "")
    run_on_cpu(k.kernel, arguments, adversary=adversary)
    return d


def stamped_alone(k: OnDevice, inputs: tuple[Any, Any, Any]) -> Trace:
    """The time line of one kernel."""
    d = torch.empty(len(inputs[0]), inputs[1].shape[-1], dtype=inputs[0].dtype)
    return k.stamped(bind(k.fusion, inputs, k.vector), [d])


@pytest.mark.sampled
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("sizes", MORE)
def test_each_row_is_written_once(name: str, sizes: str) -> None:
    """A group's rows by the kernels whose parts they are; all others by none."""
    inputs = x, _, ends = given(MORE[sizes], 40, 48, behind=5)
    k = kernel(name)
    whole = torch.full((len(x), 40), float("nan"), dtype=x.dtype)
    first = [0, *ends.tolist()]
    assert k.fusion.groups is not None
    lengths, size = k.fusion.groups.sharing.lengths, Var("size")
    for own, one in enumerate((k, *k.siblings)):
        part = Sharing(lengths, own).part(size)
        d = written_by(one, inputs)
        mine = ~d.isnan()
        assert (whole.isnan() | ~mine).all()
        whole = torch.where(mine, d, whole)
        wanted = torch.zeros(len(x), dtype=torch.bool)
        for rows, begin in zip(MORE[sizes], first, strict=False):
            here, count = (evaluate(e, {"size": rows}) for e in (part.begin, part.size))
            wanted[begin + here : begin + here + count] = True
        assert torch.equal(mine, wanted[:, None].expand_as(mine))
    check_rows(whole, *inputs)


def test_two_kernels_have_a_group() -> None:
    """172 rows are two tiles of 40 and three of 32, not five of 40; 70 are the third's."""
    inputs = given((70, 172), 8, 16)
    k = kernel("near")
    found = [written_by(one, inputs).isnan().all(1) for one in (k, *k.siblings)]
    mine = [(~rows).nonzero()[:, 0].tolist() for rows in found]
    assert mine == [[*range(70, 150)], [*range(150, 242)], [*range(70)]]


@pytest.mark.sampled
@pytest.mark.parametrize("adversary", ["eager", "lazy", "fair"])
@pytest.mark.parametrize("name", KERNELS)
def test_adversaries(name: str, adversary: Adversary) -> None:
    inputs = given((3, 0, 66, 16, 172, 1), 24, 96)
    k = kernel(name)
    whole = written_by(k, inputs, adversary)
    for d in (written_by(other, inputs, adversary) for other in k.siblings):
        whole = torch.where(d.isnan(), whole, d)
    check_rows(whole, *inputs)


def test_a_call_launches_all() -> None:
    """Also into tensors that are there, packed, and through every door."""
    x, w, ends = given(SIZES["hard"], 40, 48)
    k = kernel("three")
    d = torch.full((len(x), 40), float("nan"), dtype=x.dtype)
    (made,) = k(x, w, ends)
    k(x, w, ends, out=d)
    (bound,) = k.bind(x, w, ends)()
    (run,) = wsched.execute(grouped(), [x, w, ends], params=params_of("three"))
    for found in (made, d, bound, run):
        check_rows(found, x, w, ends)


def test_a_trace_is_of_all() -> None:
    """One behind the other: each writes its parts, and has CTAs of its own on the time line."""
    inputs = given(SIZES["hard"], 40, 48)
    k, d = kernel("three"), torch.full((len(inputs[0]), 40), float("nan"), dtype=inputs[0].dtype)
    trace = k.trace(*inputs, out=d)
    check_rows(d, *inputs)
    cta, begin, firsts = 0, 0.0, list[str]()
    for one in (k, *k.siblings):
        alone = stamped_alone(one, inputs)
        behind = cta + len({s.cta for s in alone.spans})
        mine = [s for s in trace.spans if cta <= s.cta < behind]
        assert mine == [
            replace(s, cta=s.cta + cta, begin=s.begin + begin, end=s.end + begin)
            for s in alone.spans
        ]
        firsts.append(str(cta))
        cta, begin = behind, max(s.end for s in mine)
    assert {s.cta for s in trace.spans} == {*range(cta)}
    assert trace.kernels == tuple(f"{one.kernel.name}_traced" for one in (k, *k.siblings))
    wanted = f"one kernel behind the other, the CTAs of each from {', '.join(firsts)} on"
    assert trace.about == wanted


@pytest.mark.parametrize("name", ["two", "near"])
def test_several_products(name: str) -> None:
    x, w, ends = given((*SIZES["hard"], 172), 72, 56)
    u = w.flip(0)
    (d,) = wsched.execute(GATE, [x, w, ends, u], params=params_of(name))
    assert torch.equal(d, gated(x, w, u, ends))


def test_columns() -> None:
    """Tiles of 16 columns, and with operands exchanged of 64, these first."""
    text = grouped(ranks=FORMS["columns"])
    x, w, ends = given(SIZES["hard"], 40, 48, ranks=FORMS["columns"])
    kernels = (dynamic(SMALL[n]) for n in ("exchanged", "ping-pong"))
    params = shared(tuple(replace(p, use_smem_epilogue=False) for p in kernels))
    d = torch.full((40, w.shape[1]), float("nan"), dtype=x.dtype)
    k = wsched.compile(text, [x, w, ends], params=params)
    groups = k.fusion.groups
    assert groups is not None and groups.sharing.lengths == (64, 16)
    k(x, w, ends, out=d)
    check_rows(d, x, w, ends)


def test_columns_of_two_kernels() -> None:
    text, sizes = grouped(ranks=FORMS["columns"]), (172, 3, 169)
    x, w, ends = given(sizes, 40, 48, ranks=FORMS["columns"])
    kernels = (replace(dynamic(p), use_smem_epilogue=False) for p in NEAR.values())
    d = torch.full((40, w.shape[1]), float("nan"), dtype=x.dtype)
    k = wsched.compile(text, [x, w, ends], params=shared((*kernels,)))
    k(x, w, ends, out=d)
    check_rows(d, x, w, ends)


def test_each_waits_in_front() -> None:
    k = kernel("three")
    found = [(str(m.kernel.share), m.kernel.dependent) for m in (k, *k.siblings)]
    assert found == [(f"{own} of 128, 64, 16", True) for own in range(3)]


def test_nobody_launches_a_sibling_alone() -> None:
    k = kernel("two")
    (other,) = k.siblings
    assert isinstance(other, CompiledFusion)
    with pytest.raises(UnsupportedError, match="without the kernels that take the other groups"):
        other(*given((1,), 8, 8))


@pytest.mark.parametrize(("own", "early"), [(0, True), (0, False), (1, False)])
def test_nobody_launches_a_share_for_the_whole(own: int, early: bool) -> None:
    """It would leave the groups of the others as they are, whoever waits for whom."""
    kernels = [launched(dynamic(SMALL[n]), early) for n in KERNELS["two"]]
    inputs = given((64, 16), 8, 8)
    with pytest.raises(UnsupportedError, match="without the kernels that take the other groups"):
        params = replace(kernels[own], sharing=GroupShare((64, 16), own))
        wsched.execute(grouped(), inputs, params=params)


@pytest.mark.slow
@pytest.mark.parametrize("name", KERNELS)
def test_proof(name: str) -> None:
    """Each kernel is right for all sizes, but that others write the rest of its results."""
    k = kernel(name)
    assert all(one.proof().proved for one in (k, *k.siblings))


def test_parameters() -> None:
    """They come back from plain data, and each kernel's name says which of them it is."""
    params = params_of("three")
    assert MatmulParams.from_dict(params.to_dict()) == params
    assert params.siblings[1].output_tile.m == 64
    k = kernel("three")
    assert replace(k.params, num_registers=params.num_registers) == params
    names = [one.kernel.name for one in (k, *k.siblings)]
    assert [f"_takes{own}of128_64_16_" in n for own, n in enumerate(names)] == [True] * 3
    assert "siblings[1].exchange_operands=True" in repr(k)


def test_a_schedule_of_calls() -> None:
    """The calls of a kernel, its share among them, make the same kernel again."""
    k = kernel("two")
    calls = [c for c in k.fusion.history if c.op == "share_groups"]
    assert list(map(str, calls)) == ["share_groups((64, 16), 0)"]
    assert wsched.Schedule.of(grouped(), k.siblings[0].made_from).fusion == k.siblings[0].fusion


@pytest.mark.parametrize(
    ("text", "change", "why"),
    [
        (grouped(ranks=FORMS["sums"]), {}, "siblings share out groups of rows or columns of the "
         "result, there are none"),
        (grouped(), {"sharing": GroupShare((64, 16), 1)}, "siblings have no siblings, and say of "
         "themselves nothing of sharing"),
        (grouped(), {"exchange_operands": False}, "tiles of 64 never pad a group less than those "
         "in front"),
        (grouped(), {"use_smem_epilogue": False}, "siblings read and store alike: "
         "use_smem_epilogue, thread_loads, batch_invariant and who loads the matrices of the "
         "epilogue"),
    ],
)  # fmt: skip
def test_refused(text: str, change: dict[str, Any], why: str) -> None:
    params = params_of("two")
    params = replace(params, siblings=(replace(params.siblings[0], **change),))
    ranks = FORMS["sums"] if text != grouped() else FORMS["rows"]
    with pytest.raises(ScheduleError) as e:
        wsched.compile(text, given((1,), 8, 8, matrix="kn", ranks=ranks), params=params)
    assert (e.value.rule, e.value.why) == ("params", why)


def test_matrices_of_the_epilogue_are_read_alike() -> None:
    x, w, ends = given((1,), 8, 8)
    b, r, s = torch.ones(1, 8).bfloat16(), torch.ones(1, 8).bfloat16(), torch.ones(8)
    with pytest.raises(ScheduleError, match="who loads the matrices of the epilogue"):
        wsched.compile(BIAS, [x, w, ends, b, r, s], params=params_of("two"))
