"""Grouped matmuls on the machine: groups whose sizes only the kernel reads, and what it leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given as drawn
from hypothesis import strategies as st

import wsched
from lowering.ground.errors import ScheduleError, UnsupportedError
from lowering.kernel.nodes import Body, MBarrierWait, Stmt, TmaLoad, TmaStore
from lowering.kernel.tensors import Ragged
from lowering.kernel.visit import rewrite, walk
from lowering.machine import MachineError
from lowering.machine.adversary import Adversary
from tests.grouped import BIAS, GATE, SIZES, check_rows, gated, given, grouped, product
from tests.lowering.ground.expressions import budget
from tests.schedules import (
    cooperative,
    deferred,
    dynamic,
    exchanged,
    in_tensor_memory,
    ping_pong,
    stream_k,
)
from tests.tiers import dealt
from wsched.front.known import import_fusion
from wsched.run.arguments import bind
from wsched.run.compiled import CompiledFusion
from wsched.run.cpu import run_on_cpu
from wsched.run.results import add_outputs
from wsched.schedule import Schedule
from wsched.schedule.matmul.params import (
    MatmulParams,
    SupportedVectorization,
    TileRasterizationOrder,
)
from wsched.schedule.matmul.scheduler import plan_matmul
from wsched.schedule.proof.work_of_groups import OfGroups

_COLUMNS = TileRasterizationOrder.ColumnMajor
SMALL: dict[str, MatmulParams] = {
    "cooperative": cooperative(64, 16, 32, stages=2, groups=1, registers=None, order=_COLUMNS),
    "two groups": cooperative(128, 16, 32, stages=3),
    "ping-pong": ping_pong(64, 16, 32, stages=3),
    "traversal": cooperative(64, 16, 32, stages=3, groups=1, registers=None, traversal=(3, 1)),
    "cluster": cooperative(64, 16, 32, stages=3, groups=1, registers=None, cluster=(2, 1)),
    "cluster of ping-pong": ping_pong(64, 16, 32, stages=2, cluster=(1, 2)),
    "deferred": replace(deferred(cooperative(128, 32, 32, stages=3)), epilogue_columns=16),
    "delayed": replace(
        cooperative(64, 16, 32, stages=2, groups=1, registers=None), delayed_groups=20
    ),
    "delayed cluster": replace(ping_pong(64, 16, 32, stages=2, cluster=(2, 1)), delayed_groups=64),
    "exchanged": exchanged(cooperative(64, 16, 32, stages=2, groups=1, registers=None)),
    "exchanged cluster": exchanged(ping_pong(64, 16, 32, stages=2, cluster=(2, 1))),
    "tensor memory": in_tensor_memory(256, 16, 32, stages=2, epilogue_stages=1),
}  # fmt: skip


def kernel(name: str, text: str = "") -> CompiledFusion:
    x, w, ends = given((1,), 8, 8)
    return wsched.compile(text or grouped(), [x, w, ends], params=dynamic(SMALL[name]))


def test_shares_of_steps_are_refused() -> None:
    """Which group a step is of no CTA knows before it has read all ends."""
    x, w, ends = given((1,), 8, 8)
    with pytest.raises(UnsupportedError, match="shares of the load steps of groups"):
        wsched.compile(grouped(), [x, w, ends], params=stream_k(SMALL["cooperative"]))


def run(
    k: CompiledFusion, inputs: Sequence[Any], *, seed: int = 0, adversary: Adversary = "random"
) -> Any:
    """The result, NaN where nothing was written."""
    arguments = bind(k.fusion, inputs, k.vector)
    (binding,) = k.fusion.outputs
    shape = [arguments.extents[a] for a in binding.extents]
    d = torch.full(shape, float("nan"), dtype=inputs[0].dtype)
    add_outputs(k.fusion, k.kernel, k.vector, arguments, [d], "")
    run_on_cpu(k.kernel, arguments, seed=seed, adversary=adversary)
    return d


def check(k: CompiledFusion, inputs: tuple[Any, Any, Any], **options: Any) -> None:
    check_rows(run(k, inputs, **options), *inputs)


@pytest.mark.sampled
@pytest.mark.parametrize(("name", "sizes"), dealt(SMALL, list(SIZES)))
def test_sizes(name: str, sizes: str) -> None:
    """Rows behind the last group are left alone."""
    check(kernel(name), given(SIZES[sizes], 40, 48, behind=5))


@pytest.mark.sampled
@pytest.mark.parametrize("adversary", ["eager", "lazy", "fair"])
@pytest.mark.parametrize("name", SMALL)
def test_adversaries(name: str, adversary: Adversary) -> None:
    check(kernel(name), given((3, 0, 66, 16, 1), 24, 96), adversary=adversary)


@pytest.mark.slow
@drawn(
    name=st.sampled_from(sorted(SMALL)),
    sizes=st.lists(st.integers(0, 140), min_size=1, max_size=7),
    n=st.integers(1, 6),
    k=st.integers(1, 12),
    behind=st.integers(0, 3),
    matrix=st.sampled_from(["nk", "kn"]),
    seed=st.integers(0, 1 << 16),
)
@budget(25)
def test_drawn(
    name: str, sizes: list[int], n: int, k: int, behind: int, matrix: str, seed: int
) -> None:
    """Any sizes, K and N that no tile divides, both orders of the matrices."""
    inputs = given(sizes, 8 * n, 8 * k, behind=behind, matrix=matrix)
    made = wsched.compile(grouped(matrix=matrix), inputs, params=dynamic(SMALL[name]))
    check(made, inputs, seed=seed)


def test_a_tile_writes_rows_of_its_group_only() -> None:
    """Boxes of results are those of ragged maps. What is loaded comes from the address that the
    caller gave: TMA may fault where a map that it loads through begins in unmapped memory.
    """
    k = kernel("cooperative", BIAS).kernel
    maps = {m.name: m for m in k.tensor_maps}
    loads = [maps[s.src.map] for s in walk(k.body) if isinstance(s, TmaLoad)]
    stores = [maps[s.dst.map] for s in walk(k.body) if isinstance(s, TmaStore)]
    none = Ragged.NONE
    assert [(m.rank, m.ragged) for m in loads] == [(2, none), (3, none), (2, none)]
    assert [(m.rank, m.ragged) for m in stores] == [(3, Ragged.END)]


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_rows_of_the_next_group_leave_no_trace(name: str) -> None:
    """The last tile of a group reads them: were they NaN, the group's own rows are right."""
    x, w, ends = given((3, 0, 66, 16, 1), 24, 96, behind=5)
    k = kernel(name)
    wanted = run(k, (x, w, ends))
    for other in range(5):
        first, last = (0, *ends.tolist())[other : other + 2]
        spoilt = torch.full_like(x, float("nan"))
        spoilt[first:last] = x[first:last]
        assert torch.equal(run(k, (spoilt, w, ends))[first:last], wanted[first:last])


@pytest.mark.parametrize("name", ["cooperative", "delayed"])
@pytest.mark.parametrize("ends", [(5, 3, 9), (-4, 2, 6), (4, 100, 9), (1 << 30, 0, -(1 << 30))])
def test_ends_that_no_groups_have_write_nothing_outside(name: str, ends: tuple[int, ...]) -> None:
    """An end that falls is that in front of it, one behind the matrix is its number of rows."""
    x, w, _ = given((4, 4, 4), 16, 32)
    d = run(kernel(name), (x, w, torch.tensor(ends, dtype=torch.int32)))
    last, rising = 0, list[int]()
    for end in ends:
        last = min(max(end, last), 12)
        rising.append(last)
    wanted = product(x, w, torch.tensor(rising)).to(torch.bfloat16)
    assert torch.equal(d[:last], wanted) and d[last:].isnan().all()


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("m", "g", "n", "k"),
    [(5, 0, 16, 32), (0, 3, 16, 32), (8, 2, 16, 0), (8, 2, 0, 32), (1, 1, 8, 8)],
)
def test_nothing_of_something(m: int, g: int, n: int, k: int) -> None:
    """No groups, no rows, nothing to sum, no columns: as torch, zeros where nothing is summed."""
    x, w = torch.ones(m, k).bfloat16(), torch.ones(g, n, k).bfloat16().mT
    ends = torch.full((g,), m, dtype=torch.int32)
    d = torch.full((m, n), float("nan"), dtype=x.dtype)
    wsched.compile(grouped(), [x, w, ends])(x, w, ends, out=d)
    assert (d == k).all() if g else d.isnan().all()


def test_one_kernel_for_all_ends() -> None:
    """What is captured once serves other sizes: nothing of a launch depends on them."""
    k = kernel("ping-pong")
    for sizes in ((10, 0, 90), (0, 100, 0), (33, 33, 34)):
        check(k, given(sizes, 16, 32))


@pytest.mark.parametrize("barrier", ["queue_empty", "queue_full"])
def test_without_a_wait_it_goes_wrong(barrier: str) -> None:
    """An entry is overwritten before it is read, or read before it is there."""
    k = kernel("ping-pong")

    def without(stmt: Stmt) -> Body | None:
        return () if isinstance(stmt, MBarrierWait) and stmt.bar.array == barrier else None

    broken = replace(k, kernel=replace(k.kernel, body=rewrite(k.kernel.body, without)))
    with pytest.raises((AssertionError, MachineError)):
        for seed in range(8):
            check(broken, given((64, 200, 64), 64, 32), seed=seed)


def test_small_groups_come_behind_the_others() -> None:
    """All groups are gone over twice: small ones have no tiles the first time, others none then."""
    text = kernel("delayed").dump("lower")
    tiles = "ceildiv(size, 64) * ceildiv(N, 16)"
    for line in (
        "for trip in 0 - B .. B carry",
        "let group3: i32 = trip + select(trip < 0, B, 0)",
        "let first3: i32 = select(group3 < 1, 0, begin)",
        f"let tiles_here: i32 = select(size < 20, select(trip < 0, 0, {tiles}), "
        f"select(trip < 0, {tiles}, 0))",
    ):
        assert line in text


def test_work() -> None:
    """There are no more tiles than those of all rows, and one row of them for each group."""
    work = plan_matmul(import_fusion(grouped()), dynamic(SMALL["cooperative"])).work
    assert isinstance(work, OfGroups)
    assert str(work.most) == "ceildiv(N, 16) * ceildiv(M, 64) + ceildiv(N, 16) * B"
    assert work.condition == "group[i64] < B"


def test_tiles_in_turn_are_refused() -> None:
    with pytest.raises(ScheduleError) as e:
        plan_matmul(import_fusion(grouped()), SMALL["cooperative"])
    assert e.value.rule == "load-bound"
    assert e.value.why == (
        "M of B groups, which only the device knows, in tiles that CTAs know when they start"
    )
    assert e.value.legal == (
        "split the tiles of all groups with dynamic=True, the inner part on CTAs",
    )


def test_groups_inside_of_tiles_are_refused() -> None:
    """The same calls with the groups innermost."""
    fusion = import_fusion(grouped())
    s, turned = Schedule(fusion), set[str]()
    for call in plan_matmul(fusion, dynamic(SMALL["cooperative"])).fusion.history:
        if call.op == "merge" and call.args[1] == 0 and call.args[0] not in turned:
            turned.add(call.args[0])
            s.reorder(call.args[0], {0: 1})
        getattr(s, call.op)(*call.args, **dict(call.kwargs))
    with pytest.raises(ScheduleError) as e:
        s.plan()
    assert (e.value.rule, e.value.why) == (
        "load-bound",
        "tiles are dealt out at run time, but are not those of B groups, one group behind the "
        "other",
    )
    assert e.value.legal == ("merge B with the tiles of one group, as the outer one",)


@pytest.mark.sampled
@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("n", [40, 15])
def test_threads_store_rows_of_groups(name: str, n: int) -> None:
    """They end with the group, in a tile's rows and, with operands exchanged, in its columns."""
    vector = SupportedVectorization(2 if n % 2 == 0 else 1)
    params = replace(dynamic(SMALL[name]), use_smem_epilogue=False, supported_vec_size=vector)
    params = replace(params, deferred_stores=False)  # threads store at once
    inputs = given(SIZES["hard"], n, 48, behind=5)
    check(wsched.compile(grouped(), inputs, params=params), inputs)


def test_columns_that_tma_cannot_store_are_stored_by_threads() -> None:
    x, w, ends = given((3, 5), 12, 32)
    made = wsched.compile(grouped(), [x, w, ends])
    assert not any(isinstance(s, TmaStore) for s in walk(made.kernel.body))
    check(made, (x, w, ends))


def test_gate_and_up() -> None:
    x, w, ends = given(SIZES["hard"], 72, 56)
    u = w.flip(0)
    (d,) = wsched.execute(GATE, [x, w, ends, u])
    assert torch.equal(d, gated(x, w, u, ends))


def test_an_epilogue() -> None:
    """A row of the bias for each group, rows of the residual, one scale for all."""
    sizes = SIZES["hard"]
    x, w, ends = given(sizes, 72, 56)
    b, r = torch.randint(-3, 4, (len(sizes), 72)), torch.randint(-3, 4, (sum(sizes), 72))
    s = torch.randint(1, 3, (72,)).float()
    (d,) = wsched.execute(BIAS, [x, w, ends, b.bfloat16(), r.bfloat16(), s])
    group = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    sums = (product(x, w, ends) + b[group]).bfloat16().float()
    assert torch.equal(d, (sums * s + r).bfloat16())


WEIGHTED = grouped(
    *(f"r{i} = fd.define_tensor(shape=[-1, -1], dtype=DataType.BFloat16)" for i in range(3)),
    "s = fd.define_tensor(shape=[-1], dtype=DataType.Float)",
    "e = fd.ops.grouped_mm(x, w, o)",
    "v = fd.ops.broadcast(s, is_broadcast_dim=[False, True])",
    "f = fd.ops.mul(e, v)", "t0 = fd.ops.add(f, r0)", "t1 = fd.ops.add(t0, r1)",
    "t2 = fd.ops.add(t1, r2)", "d = fd.ops.cast(t2, dtype=DataType.BFloat16)", "fd.add_output(d)",
)  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["cooperative", "ping-pong", "exchanged", "cluster"])
def test_a_weight_for_each_row(name: str) -> None:
    """Threads read it, and the third matrix, by the rows of the group; also behind the last one."""
    sizes = SIZES["hard"]
    x, w, ends = given(sizes, 40, 56, behind=3)
    m = len(x)
    rows = [torch.randint(-3, 4, (m, 40)) for _ in range(3)]
    s = torch.randint(1, 4, (m,)).float()
    params = replace(dynamic(SMALL[name]), epilogue_input_stages=2)
    k = wsched.compile(WEIGHTED, [x, w, ends, *(r.bfloat16() for r in rows), s], params=params)
    d = torch.full((m, 40), float("nan"), dtype=x.dtype)
    k(x, w, ends, *(r.bfloat16() for r in rows), s, out=d)
    scaled = product(x, w, ends).bfloat16().float() * s[: sum(sizes), None]
    assert torch.equal(d[: sum(sizes)], (scaled + sum(rows)[: sum(sizes)]).bfloat16())
    assert d[sum(sizes) :].isnan().all()


def test_what_it_is_called() -> None:
    assert "_grouped_" in kernel("cooperative").kernel.name


def test_the_nests_say_where_tiles_come_from() -> None:
    assert (
        "tiles are dealt out at run time: each cta has every n-th of those that groups have, whose "
        "ends are in T6, tile counts its own"
    ) in kernel("cooperative").dump("loops").splitlines()
