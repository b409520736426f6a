"""Groups of columns and sums over groups, on the machine: any sizes, and epilogues."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given as drawn
from hypothesis import strategies as st

import wsched
from lowering.ground.errors import ScheduleError, UnsupportedError
from lowering.ground.expr import Const
from lowering.kernel.kernel import GlobalTensor
from lowering.kernel.nodes import FragStoreGlobal, TmaLoad
from lowering.kernel.tensors import Ragged
from lowering.kernel.visit import walk
from lowering.machine import MachineError
from lowering.machine.adversary import Adversary
from tests.grouped import FORMS, SIZES, check_rows, given, grouped, product
from tests.lowering.ground.expressions import budget
from tests.run.test_grouped import SMALL, run
from tests.schedules import dynamic
from tests.tiers import dealt
from wsched.front.known import import_fusion
from wsched.run.compiled import CompiledFusion
from wsched.schedule import Schedule
from wsched.schedule.matmul.params import MatmulParams, SupportedVectorization
from wsched.schedule.matmul.scheduler import plan_matmul
from wsched.schedule.proof.work_of_groups import OfGroups

SHARING = tuple(
    name for name in SMALL
    if "ping-pong" not in name and name not in ("exchanged cluster", "tensor memory")
    and not SMALL[name].delayed_groups
)  # fmt: skip
"""Those whose warpgroups share tiles, hold what they sum up, and have groups in their order."""
CASES = [("columns", name) for name in SMALL] + [("sums", name) for name in SHARING]


def params(form: str, name: str) -> MatmulParams:
    made = dynamic(SMALL[name])
    if form == "sums":
        return made
    vector = SupportedVectorization(1)
    return replace(
        made,
        use_smem_epilogue=False,
        supported_vec_size=vector,
        epilogue_input_stages=0,
        deferred_stores=False,
    )


def kernel(form: str, name: str, text: str = "") -> CompiledFusion:
    ranks = FORMS[form]
    inputs = given((8,), 8, 8, ranks=ranks, matrix="nk" if form == "columns" else "kn")
    return wsched.compile(text or grouped(ranks=ranks), inputs, params=params(form, name))


def operands(form: str, sizes: tuple[int, ...], n: int, k: int, behind: int = 0) -> Any:
    """Such that what is in groups lies by groups."""
    matrix = "nk" if form == "columns" else "kn"
    return given(sizes, n, k, behind=behind, matrix=matrix, ranks=FORMS[form])


@pytest.mark.sampled
@pytest.mark.parametrize(("form", "name", "sizes"), dealt(CASES, list(SIZES)))
def test_sizes(form: str, name: str, sizes: str) -> None:
    """What is of no group is left alone, or not summed; an empty group is a sum of nothing."""
    inputs = operands(form, SIZES[sizes], 40, 48, behind=5)
    check_rows(run(kernel(form, name), inputs), *inputs)


@pytest.mark.sampled
@pytest.mark.parametrize(("form", "name", "adversary"), dealt(CASES, ["eager", "lazy", "fair"]))
def test_adversaries(form: str, name: str, adversary: Adversary) -> None:
    inputs = operands(form, (3, 0, 66, 16, 1, 100), 24, 96)
    check_rows(run(kernel(form, name), inputs, adversary=adversary), *inputs)


@pytest.mark.slow
@drawn(
    case=st.sampled_from(CASES),
    sizes=st.lists(st.integers(0, 140), min_size=1, max_size=7),
    n=st.integers(1, 6),
    k=st.integers(1, 12),
    behind=st.integers(0, 3),
    seed=st.integers(0, 1 << 16),
)
@budget(20)
def test_drawn(
    case: tuple[str, str], sizes: list[int], n: int, k: int, behind: int, seed: int
) -> None:
    inputs = operands(case[0], tuple(sizes), 8 * n, 8 * k, behind)
    made = kernel(*case)
    check_rows(run(made, inputs, seed=seed), *inputs)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("form", "name"), CASES)
def test_what_is_of_others_leaves_no_trace(form: str, name: str) -> None:
    """Were other groups NaN, what is a group's own is right: they meet no sum and no result."""
    sizes = (3, 0, 66, 16, 1)
    x, w, ends = operands(form, sizes, 24, 96, behind=5)
    k = kernel(form, name)
    wanted = product(x, w, ends).bfloat16()
    for other in range(len(sizes)):
        first, last = (0, *ends.tolist())[other : other + 2]
        if form == "columns":
            spoilt = torch.full_like(w, float("nan"))
            spoilt[:, first:last] = w[:, first:last]
            d = run(k, (x, spoilt, ends))
            assert torch.equal(d[:, first:last], wanted[:, first:last])
        else:
            left, right = torch.full_like(x, float("nan")), torch.full_like(w, float("nan"))
            left[:, first:last], right[first:last] = x[:, first:last], w[first:last]
            assert torch.equal(run(k, (left, right, ends))[other], wanted[other])


@pytest.mark.parametrize("ends", [(5, 3, 9), (-4, 2, 6), (4, 100, 9), (1 << 30, 0, -(1 << 30))])
@pytest.mark.parametrize("form", ["columns", "sums"])
def test_ends_that_no_groups_have(form: str, ends: tuple[int, ...]) -> None:
    """An end that falls is that in front of it, one behind the matrix is its extent."""
    x, w, _ = operands(form, (4, 4, 4), 16, 32)
    d = run(kernel(form, "cooperative"), (x, w, torch.tensor(ends, dtype=torch.int32)))
    last, rising = 0, list[int]()
    for end in ends:
        last = min(max(end, last), 12)
        rising.append(last)
    check_rows(d, x, w, torch.tensor(rising))


@pytest.mark.sampled
@pytest.mark.parametrize("form", ["columns", "sums"])
@pytest.mark.parametrize(
    ("whole", "g", "n", "k"), [(0, 3, 16, 32), (8, 2, 16, 0), (8, 2, 0, 32), (1, 1, 8, 8)]
)
def test_nothing_of_something(form: str, whole: int, g: int, n: int, k: int) -> None:
    """No columns, nothing to sum, no result: as torch, zeros where nothing is summed."""
    sizes = (whole, *([0] * (g - 1)))
    x, w, ends = operands(form, sizes, n, k)
    shape = (n, whole) if form == "columns" else (g, n, k)
    d = torch.full(shape, float("nan"), dtype=x.dtype)
    wsched.compile(grouped(ranks=FORMS[form]), [x, w, ends])(x, w, ends, out=d)
    assert torch.equal(d, product(x, w, ends).bfloat16().reshape(shape))


@pytest.mark.parametrize("form", ["columns", "sums"])
def test_one_kernel_for_all_ends(form: str) -> None:
    k = kernel(form, "two groups")
    for sizes in ((10, 0, 90), (0, 100, 0), (33, 33, 34)):
        inputs = operands(form, sizes, 16, 32)
        check_rows(run(k, inputs), *inputs)


def test_columns_are_stored_one_by_one_up_to_the_end_of_the_group() -> None:
    """Two at once would begin at odd ones; boxes begin at 16 bytes only."""
    k = kernel("columns", "cooperative").kernel
    (store,) = (s for s in walk(k.body) if isinstance(s, FragStoreGlobal))
    tensor = k.find(GlobalTensor, store.dst.map)
    assert store.limit_cols is not None and store.limit is None
    assert tensor is not None and not tensor.pairs


def test_sums_are_loaded_through_maps_that_begin_with_the_group() -> None:
    k = kernel("sums", "cooperative").kernel
    maps = {m.name: m for m in k.tensor_maps}
    loads = [maps[s.src.map] for s in walk(k.body) if isinstance(s, TmaLoad)]
    assert [(m.rank, m.ragged) for m in loads] == [(3, Ragged.BEGIN)] * 2


def test_without_zeros_in_front_of_a_group_it_goes_wrong() -> None:
    """The first step of a group reads rows of the one in front of it, if its map lets it."""
    k = kernel("sums", "cooperative")
    maps = (replace(m, ragged=Ragged.NONE) for m in k.kernel.tensor_maps if m.ragged)
    broken = replace(k, kernel=k.kernel.redeclare(*maps))
    with pytest.raises((AssertionError, MachineError, UnsupportedError)):
        inputs = operands("sums", (3, 40, 5), 24, 96)
        check_rows(run(broken, inputs), *inputs)


EPILOGUE = (
    "r = fd.define_tensor(shape=[-1, -1], dtype=DataType.BFloat16)",
    "s = fd.define_tensor(shape=[-1], dtype=DataType.Float)",
    "t = fd.define_tensor(shape=[-1], dtype=DataType.Float)",
    "e = fd.ops.grouped_mm(x, w, o)",
    "u = fd.ops.broadcast(s, is_broadcast_dim=[True, False])",
    "v = fd.ops.broadcast(t, is_broadcast_dim=[False, True])",
    "f = fd.ops.mul(e, u)", "g = fd.ops.mul(f, v)", "h = fd.ops.add(g, r)",
    "d = fd.ops.cast(h, dtype=DataType.BFloat16)", "fd.add_output(d)",
)  # fmt: skip
"""A residual, a scale for each column and one for each row."""


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["cooperative", "ping-pong", "exchanged"])
def test_an_epilogue_of_columns(name: str) -> None:
    """What has columns is read at those of the group; what has rows is the same for all groups."""
    sizes = SIZES["hard"]
    x, w, ends = operands("columns", sizes, 40, 56, behind=3)
    n = w.shape[1]
    r, s, t = (torch.randint(-3, 4, shape).float() for shape in ((40, n), (n,), (40,)))
    k = kernel("columns", name, grouped(*EPILOGUE, ranks=FORMS["columns"]))
    d = torch.full((40, n), float("nan"), dtype=x.dtype)
    k(x, w, ends, r.bfloat16(), s, t, out=d)
    scaled = product(x, w, ends).bfloat16().float() * s[:-3] * t[:, None]
    assert torch.equal(d[:, :-3], (scaled + r[:, :-3]).bfloat16())
    assert d[:, -3:].isnan().all()


SUMMED = (
    "r = fd.define_tensor(shape=[-1, -1, -1], dtype=DataType.BFloat16)",
    "e = fd.ops.grouped_mm(x, w, o)", "h = fd.ops.add(e, r)",
    "d = fd.ops.cast(h, dtype=DataType.BFloat16)", "fd.add_output(d)",
)  # fmt: skip
"""Gradients that are added to those of earlier steps."""


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["cooperative", "cluster"])
@pytest.mark.parametrize("staged", [0, 2])
def test_an_epilogue_of_sums(name: str, staged: int) -> None:
    """A matrix of each group, read by threads or once a tile by TMA."""
    x, w, ends = operands("sums", SIZES["hard"], 40, 56)
    r = torch.randint(-3, 4, (6, 40, 56)).bfloat16()
    made = replace(params("sums", name), epilogue_input_stages=staged)
    k = wsched.compile(grouped(*SUMMED, ranks=FORMS["sums"]), [x, w, ends, r], params=made)
    (d,) = k(x, w, ends, r)
    assert torch.equal(d, (product(x, w, ends).bfloat16().float() + r).bfloat16())


def test_work_of_sums() -> None:
    """Every group has all tiles; of steps as many as hold what it has, one at least."""
    fusion = import_fusion(grouped(ranks=FORMS["sums"]))
    work = plan_matmul(fusion, params("sums", "cooperative")).work
    assert isinstance(work, OfGroups)
    assert str(work.most) == "ceildiv(N, 16) * ceildiv(M, 64) * B"
    assert str(work.chunk) == "32"
    assert [work.steps_of(Const(n)) for n in (0, 1, 33)] == [Const(1), Const(1), Const(2)]


def test_warpgroups_that_take_turns_are_refused() -> None:
    with pytest.raises(UnsupportedError) as e:
        kernel("sums", "ping-pong")
    assert e.value.what == "sums over groups by warpgroups that take turns"
    assert e.value.supported == "warpgroups that share tiles, and one loop over k slices"


def test_steps_of_no_group_are_refused() -> None:
    """The same calls, but K split in two before it is split into steps."""
    fusion = import_fusion(grouped(ranks=FORMS["sums"]))
    s, turned = Schedule(fusion), set[str]()
    for call in plan_matmul(fusion, params("sums", "cooperative")).fusion.history:
        if call.op == "split" and call.args[2] == 32 and call.args[0] not in turned:
            turned.add(call.args[0])
            s.split(*call.args[:2], 64, labels=("Koo", "Koi"))
        getattr(s, call.op)(*call.args, **dict(call.kwargs))
    with pytest.raises(ScheduleError) as e:
        s.plan()
    assert (e.value.rule, e.value.why) == (
        "load-bound",
        "B groups share out K, of which only the device knows how much each has, but the steps of "
        "a tile are k",
    )
