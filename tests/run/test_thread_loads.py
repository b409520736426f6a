"""Operands that threads load where they lie: no copies in front, where TMA would need some."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import wsched
from lowering.ground.errors import ScheduleError, UnsupportedError
from tests.proofs import proved
from tests.schedules import definition
from wsched.fusion import IterType, ParallelType
from wsched.importer import build_fusion, record_text
from wsched.run.compiled import CompiledFusion, compile_fusion
from wsched.run.copies import copies, thread_bytes, thread_widths, unreadable
from wsched.run.layout import laid_out
from wsched.schedule.matmul.params import (
    BufferingLoopLevel,
    CircularBufferingStrategy,
    CircularBufferOptions,
    ClusterDims,
    GemmTile,
    MatmulParams,
    SupportedVectorization,
    ThreadLoads,
    TilingStrategy,
)
from wsched.schedule.matmul.tiles import with_tile

torch = pytest.importorskip("torch", reason="torch is not installed")


def integers(rows: int, cols: int, seed: int = 0) -> Any:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-2, 3, (rows, cols), generator=generator).to(torch.bfloat16)


def by_columns(t: Any) -> Any:
    return t.T.contiguous().T


def params(loads: ThreadLoads, tile: tuple[int, int, int] = (64, 64, 64), **others: Any) -> Any:
    base = MatmulParams(
        thread_loads=loads, use_smem_epilogue=False, epilogue_stages=1,
        supported_vec_size=SupportedVectorization(1),
        circular_buffer_options=CircularBufferOptions(smem_circular_buffer_stage=3), **others,
    )  # fmt: skip
    turns = base.ping_pong
    return with_tile(base, GemmTile(*tile), 2 if turns or tile[0] == 128 else 1, turns, 1)


def kernel(p: MatmulParams, *inputs: Any) -> CompiledFusion:
    return compile_fusion(laid_out(build_fusion(record_text(definition())), inputs), p)


def check(made: CompiledFusion, x: Any, w: Any) -> None:
    (y,) = made(x, w)
    assert torch.equal(y, (x.float() @ w.float().T).to(torch.bfloat16))


WAYS: dict[str, tuple[Any, tuple[int, int, int]]] = {
    "both": (params(ThreadLoads(2, 2)), (70, 65, 67)),
    "two warpgroups": (params(ThreadLoads(2, 2, 2), (128, 64, 64)), (140, 65, 67)),
    "a": (params(ThreadLoads(2, 0)), (70, 65, 72)),
    "b": (params(ThreadLoads(0, 4)), (70, 66, 72)),
    "pairs and fours": (params(ThreadLoads(8, 4), (64, 32, 128)), (3, 33, 132)),
    "ping-pong": (
        params(ThreadLoads(2, 2), buffering_loop_level=BufferingLoopLevel.WarpTiles),
        (200, 65, 133),
    ),
    "exchanged": (params(ThreadLoads(2, 2), exchange_operands=True), (71, 165, 67)),
    "parts of K": (params(ThreadLoads(2, 2), splitk_factor=3), (71, 65, 567)),
    "stream-K": (
        params(
            ThreadLoads(2, 2), tiling_strategy=TilingStrategy.DistributeStagesAcrossSMs
        ),
        (71, 65, 367),
    ),
    "the other operand multicast": (
        params(ThreadLoads(0, 2), cluster_dims=ClusterDims(1, 2)), (71, 265, 72),
    ),
}  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize("name", WAYS)
def test_runs_without_copies(name: str) -> None:
    p, (m, n, k) = WAYS[name]
    x, w = integers(m, k), integers(n, k, 1)
    made = kernel(p, x, w)
    assert unreadable(made.fusion, [x, w], made.by_threads) == ()
    check(made, x, w)


def multicast(loads: ThreadLoads, dims: tuple[int, int], *tile: int, **others: Any) -> Any:
    return params(loads, tile or (64, 64, 64), cluster_dims=ClusterDims(*dims), **others)


IN_CLUSTERS: dict[str, Any] = {
    "b by threads": multicast(ThreadLoads(0, 2), (1, 2)),
    "a by threads": multicast(ThreadLoads(2, 0), (2, 1)),
    "four CTAs": multicast(ThreadLoads(0, 2), (1, 4)),
    "both ways": multicast(ThreadLoads(0, 2), (2, 2)),
    "nothing multicast": multicast(ThreadLoads(2, 2), (1, 2)),
    "two warpgroups": multicast(ThreadLoads(0, 2, 2), (1, 2), 128, 64, 64),
    "ping-pong": multicast(
        ThreadLoads(0, 2), (1, 2), buffering_loop_level=BufferingLoopLevel.WarpTiles
    ),
    "exchanged": multicast(ThreadLoads(2, 0), (2, 1), exchange_operands=True),
    "parts of K": multicast(ThreadLoads(0, 2), (1, 2), splitk_factor=3),
    "stream-K": multicast(
        ThreadLoads(0, 2), (1, 2), tiling_strategy=TilingStrategy.DistributeStagesAcrossSMs
    ),
}


PROVED = {name: p for name, (p, _) in WAYS.items()} | {
    f"{name}, in clusters": p for name, p in IN_CLUSTERS.items()
}


@pytest.mark.sampled
@pytest.mark.parametrize("name", PROVED)
def test_kernels_are_proved(name: str) -> None:
    """In clusters as well, where threads write behind a wait that products of peers end."""
    made = kernel(PROVED[name], integers(71, 72), integers(265, 72))
    proved(made.kernel, made.plan)


def test_operands_that_lie_by_columns() -> None:
    """Rows of a stage are those of K; 80 columns of B are more than a swizzle span."""
    x, w = by_columns(integers(71, 67)), by_columns(integers(165, 67, 1))
    check(kernel(params(ThreadLoads(2, 2, 2), (64, 80, 64)), x, w), x, w)


def test_what_begins_anywhere_is_read_where_it_lies() -> None:
    """An odd base, rows far apart, and all rows at one place; an operand without rows."""
    whole = integers(90, 201)
    made = kernel(params(ThreadLoads(2, 2)), whole[:70, 1:68], whole[:65, 3:70])
    check(made, whole[:70, 1:68], whole[::2, 3:70])
    check(made, whole[:1, 5:72].expand(70, 67), whole[:65, 3:70])
    assert copies(made.fusion, [whole[:70, 1:68], whole[:65, 3:70]], made.by_threads) == ()


def test_what_threads_cannot_read_is_copied() -> None:
    """A kernel for 4 bytes at once, rows of odd lengths: those of a copy are multiples of 128."""
    x, w = integers(70, 66), integers(65, 66, 1)
    made = kernel(params(ThreadLoads(4, 4)), x, w)
    odd, apart = integers(70, 67)[:, 1:], integers(70, 132)[:, ::2]
    assert unreadable(made.fusion, [odd, w], made.by_threads) == (0,)
    assert unreadable(made.fusion, [apart, w], made.by_threads) == (0,)
    reasons = [c.reason for t in (odd, apart) for c in copies(made.fusion, [t, w], made.by_threads)]
    assert reasons == [f"threads copy 4 bytes at once, here {n}" for n in (2, 0)]
    check(made, odd, w)
    check(made, apart, w)


def test_rows_of_a_length_that_threads_cannot_copy_are_refused() -> None:
    """A copy has rows of the same length: none would help, however they lie."""
    made = kernel(params(ThreadLoads(4, 4)), integers(70, 66), integers(65, 66, 1))
    for pitch in (67, 68, 72):
        x, w = integers(70, pitch)[:, :67], integers(65, pitch, 1)[:, :67]
        assert copies(made.fusion, [x, w], made.by_threads) == ()
        with pytest.raises(UnsupportedError) as error:
            made(x, w)
        assert (error.value.what, error.value.supported) == (
            "input 0 with rows of 134 bytes, of which a thread copies 4 at once",
            "rows of multiples of 4 bytes",
        )  # fmt: skip


@pytest.mark.parametrize(
    ("make", "most"),
    [
        (lambda t: t, 16), (lambda t: t[:, :4], 8), (lambda t: t[:, 2:6], 4),
        (lambda t: t[:, 1:9], 2), (lambda t: t[:, :3], 2), (lambda t: t[:, ::2], 0),
        (lambda t: t.T, 16), (lambda t: t[:1, 4:8], 8), (lambda t: t[:0], 16),
    ],
)  # fmt: skip
def test_thread_bytes(make: Any, most: int) -> None:
    assert thread_bytes(make(torch.zeros(24, 32, dtype=torch.bfloat16))) == most


@pytest.mark.parametrize(
    ("x", "w", "widths"),
    [
        (integers(70, 67), integers(65, 67), {"T0": 2, "T1": 2}),
        (integers(70, 68), integers(65, 68), {"T0": 8, "T1": 8}),
        (integers(70, 72), integers(65, 74)[:, :72], {"T1": 4}),
        (integers(70, 144)[:, ::2], integers(65, 74)[:, 1:73], {"T1": 2}),
        (integers(70, 72), integers(65, 72), {}),
    ],
    ids=["odd rows", "multiples of 8", "one of them", "columns apart", "neither"],
)
def test_operands_that_threads_can_read_and_tma_cannot(x: Any, w: Any, widths: Any) -> None:
    """Not those that TMA reads, nor those of which no thread can copy two elements at once."""
    fusion = laid_out(build_fusion(record_text(definition())), [x, w])
    assert thread_widths(fusion, [x, w]) == widths


def test_rows_that_a_thread_cannot_copy_at_once_are_refused_where_nothing_is_copied() -> None:
    from wsched.run.arguments import bind

    x, w = integers(70, 66), integers(65, 66, 1)
    made = kernel(params(ThreadLoads(4, 4)), x, w)
    with pytest.raises(UnsupportedError) as error:
        bind(made.fusion, [integers(70, 67)[:, :66], w], 1, made.by_threads)
    assert (error.value.what, error.value.supported) == (
        "input 0 with 134 bytes from row to row", "multiples of 4 bytes",
    )  # fmt: skip
    longer = integers(70, 68)[:, :67]
    with pytest.raises(UnsupportedError) as error:
        bind(made.fusion, [longer, integers(65, 68)[:, :67]], 1, made.by_threads)
    assert error.value.what == "input 0 with rows of 134 bytes, of which a thread copies 4 at once"


REFUSED = {
    "thread_loads.a=3: threads copy 2, 4, 8, 16 bytes of BFloat16 at once, 0 leaves it to "
    "TMA": ThreadLoads(3, 0),
    "thread_loads.b=1: threads copy 2, 4, 8, 16 bytes of BFloat16 at once, 0 leaves it to "
    "TMA": ThreadLoads(0, 1),
    "thread_loads.warpgroups=0: at least one loads": ThreadLoads(2, 2, 0),
    "thread_loads.warpgroups=3: 64 rows of a stage of a are no whole number for each": (
        ThreadLoads(2, 0, 3)
    ),
}


@pytest.mark.parametrize("why", REFUSED)
def test_illegal_parameters(why: str) -> None:
    with pytest.raises(ScheduleError) as error:
        kernel(params(REFUSED[why]))
    assert error.value.rule == "params" and error.value.why == why


def test_parameters_without_a_kernel() -> None:
    pipelined = {"circular_buffering_strategy": CircularBufferingStrategy.Pipelined}
    queue = {"tiling_strategy": TilingStrategy.DistributeTilesDynamically}
    said = "thread_loads(a 2 bytes, 1 warpgroup) with "
    for others, what in ((pipelined, "Pipelined loads"), (queue, "DistributeTilesDynamically")):
        with pytest.raises(UnsupportedError) as error:
            kernel(params(ThreadLoads(2, 0), **others))
        assert error.value.what == said + what


def test_the_schedule_that_is_written_call_by_call_says_the_same() -> None:
    x, w = integers(70, 66), integers(65, 66, 1)
    p = params(ThreadLoads(4, 2, 2))
    made = wsched.Schedule.of(definition(), p, [x, w])
    again = wsched.compile(wsched.Schedule.parse(str(made)), [x, w])
    assert again.by_threads == {"T0": 4, "T1": 2}
    check(again, x, w)
    with pytest.raises(ScheduleError) as error:
        made.configure(copied_bytes={"T0": 3})
    assert error.value.why == "a thread copies 3 bytes of T0 at once"


def test_each_warpgroup_loads_rows_of_a_stage() -> None:
    """Of either operand its own rows, not those that it has none of."""
    made = kernel(params(ThreadLoads(2, 2, 2), (128, 128, 64)))
    split = {}
    for name in made.fusion.loaded_by_threads:
        loop = made.fusion.tensor(name).loop
        at = next(i for i, d in enumerate(loop) if d.parallel is ParallelType.TIDy)
        split[name] = loop[at + 1].label
        assert all(d.iter_type is not IterType.Broadcast for d in loop[at : at + 2])
    assert sorted(split.values()) == ["Mi", "Ni"]


def test_registers() -> None:
    """The loads keep what their pieces take, the others have the rest."""
    made = kernel(params(ThreadLoads(2, 2, 2), (128, 128, 64)))
    assert made.params.num_registers == (96, 160) and made.kernel.threads == 512
    given = replace(made.params, num_registers=(104, 160))
    with pytest.raises(ScheduleError, match="registers"):
        kernel(given)
