"""A schedule of one's own: made from nothing or from the built-in one, compiled and run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import wsched  # noqa: E402
from tests.epilogues import GELU, RESIDUAL  # noqa: E402
from tests.front.own import cooperative  # noqa: E402
from tests.schedules import QUICK, SCHEDULES, definition, for_result  # noqa: E402
from tests.tiers import in_tiers  # noqa: E402
from wsched import ParallelType, Schedule, ScheduleError  # noqa: E402
from wsched.fusion import PrimitiveCall  # noqa: E402
from wsched.importer import build_fusion, record_text  # noqa: E402
from wsched.importer.input_error import InputError  # noqa: E402
from wsched.run.compiled import compile_fusion  # noqa: E402
from wsched.schedule.matmul.params import GemmTile  # noqa: E402
from wsched.schedule.matmul.scheduler import schedule_matmul  # noqa: E402
from wsched.schedule.matmul.tiles import with_tile  # noqa: E402

SQUARE = SCHEDULES["coop_128x128"]


def operands(m: int = 200, n: int = 264, k: int = 136) -> tuple[Any, Any]:
    generator = torch.Generator().manual_seed(0)
    return tuple(torch.randn(s, generator=generator).bfloat16() for s in ((m, k), (n, k)))


def error(found: Any, expected: Any) -> float:
    return float((found.float() - expected).norm() / expected.norm())


@pytest.mark.sampled
@pytest.mark.parametrize(
    "shape",
    [{}, {"n": 192}, {"k": 32}, {"m": 64, "groups": 1, "registers": None}, {"chunk": 32}],
    ids=str,
)
def test_from_nothing(shape: dict[str, Any]) -> None:
    s = cooperative(definition(), **shape)
    x, w = operands()
    (out,) = wsched.execute(s, [x, w])
    assert error(out, x.float() @ w.float().T) < 4e-3
    assert s.check().error is None


@pytest.mark.sampled
@pytest.mark.parametrize("name", in_tiers(SCHEDULES, QUICK))
def test_the_built_in_schedule_goes_through_the_same_door(name: str) -> None:
    fusion = build_fusion(record_text(definition()))
    s = Schedule.of(definition(), SCHEDULES[name])
    built_in = compile_fusion(fusion, SCHEDULES[name])
    assert s.fusion == schedule_matmul(fusion, SCHEDULES[name])
    mine = wsched.compile(s, operands())
    assert mine.kernel == replace(built_in.kernel, name=mine.kernel.name)
    assert mine.options == built_in.options
    again = Schedule.parse(str(s))
    assert (str(again), again.fusion, again.options) == (str(s), s.fusion, s.options)


@pytest.mark.parametrize("text", [GELU, RESIDUAL], ids=["gelu", "residual"])
def test_an_epilogue_goes_there_and_back(text: str) -> None:
    params = for_result(SQUARE, "bf16", inputs=("bf16",))
    s = Schedule.of(text, params)
    again = Schedule.parse(str(s))
    assert again.fusion == s.fusion and again.check().error is None


def test_what_a_kernel_has_of_parameters_is_in_the_options() -> None:
    policies = wsched.CachePolicies(a=wsched.CachePolicy.EvictFirst, b=wsched.CachePolicy.EvictLast)
    params = replace(
        SQUARE,
        programmatic_dependent_launch=False,
        cache_policies=policies,
        use_smem_epilogue=False,
        supported_vec_size=wsched.SupportedVectorization(1),
        epilogue_stages=1,
    )
    s = Schedule.of(definition(), params)
    built_in = compile_fusion(build_fusion(record_text(definition())), params)
    for mine in (s, Schedule.parse(str(s))):
        kernel = wsched.compile(mine, operands())
        assert (kernel.options, kernel.vector) == (built_in.options, 1)
        assert kernel.kernel == replace(built_in.kernel, name=kernel.kernel.name)


@pytest.mark.parametrize("registers", [None, (40, 232)])
def test_warpgroups_that_share_slices_of_k(registers: tuple[int, int] | None) -> None:
    """No loop has them: the passes add them, and so they are options."""
    base = wsched.MatmulParams(epilogue_stages=1, num_registers=registers)
    params = with_tile(base, GemmTile(64, 64, 128), 2, ping_pong=False, along_k=2)
    s = Schedule.of(definition(), params)
    assert (s.options.slice_groups, s.options.slice_registers) == (2, registers)
    built_in = compile_fusion(build_fusion(record_text(definition())), params)
    for mine in (s, Schedule.parse(str(s))):
        kernel = wsched.compile(mine, operands())
        assert kernel.kernel == replace(built_in.kernel, name=kernel.kernel.name)


def test_a_policy_for_what_threads_store() -> None:
    params = replace(SQUARE, use_smem_epilogue=False)
    s = Schedule.of(definition(), params)
    s.configure(cache_policies={s.outputs[0]: wsched.CachePolicy.EvictLast})
    assert str(s.check()) == (
        "ScheduleError[cache-policy]: cache_policies: T5 evict_last: no TMA copies T5\n"
        "  legal here: T0; T1\n"
    )


def test_a_change_of_the_built_in_schedule() -> None:
    s = Schedule.of(definition(), SQUARE)
    before, calls = s.fusion, len(s.history)
    acc = s.acc
    s.undo()  # inlining the accumulator, then the epilogue
    while s.tensor(acc).compute_at or any(t.compute_at for t in s.fusion.tensors):
        s.undo()
    assert s.tensor(acc).compute_at == 0 < len(s.history) < calls
    for record in before.history[len(s.history) :]:
        getattr(s, record.op)(*record.args, **dict(record.kwargs))
    assert s.fusion == before


def test_undo_takes_back_call_by_call() -> None:
    s = Schedule(definition())
    copy = s.cache_after(s.a)
    s.split(copy, "M", 64)
    s.configure(epilogue_stages=1)
    assert [r.op for r in s.history] == ["cache_after", "split", "configure"]
    s.undo(2)
    assert s.history == (PrimitiveCall("cache_after", ("T2", wsched.LoadStoreOpType.Set)),)
    assert s.options == wsched.KernelOptions() and s[copy].loops == ("M", "N", "K")
    with pytest.raises(ScheduleError) as refused:
        s.undo(2)
    assert str(refused.value) == "ScheduleError[undo]: undo(2): 1 calls can be taken back"


def test_a_refused_call_changes_nothing() -> None:
    s = cooperative(definition())
    fusion, history = s.fusion, s.history
    calls: list[Callable[[], None]] = [
        lambda: s.split(s.a, 0, 2),
        lambda: s.merge(s.acc, "nowhere"),
        lambda: s.configure(speed=11),
    ]
    for call in calls:
        with pytest.raises(ScheduleError):
            call()
    assert (s.fusion, s.history) == (fusion, history)


def test_kernels_are_kept_by_schedule() -> None:
    x, w = operands()
    one, two = cooperative(definition()), cooperative(definition())
    assert wsched.compile(one, [x, w]) is wsched.compile(two, [x, w])
    one.configure(epilogue_stages=1)
    other = wsched.compile(one, [x, w])
    assert other is not wsched.compile(two, [x, w])
    assert other.kernel.name != wsched.compile(two, [x, w]).kernel.name


def test_calls_in_another_order_are_the_same_kernel() -> None:
    one, two = (Schedule(definition()) for _ in range(2))
    for s, order in ((one, (0, 1)), (two, (1, 0))):
        for axis in order:
            s.parallelize(s.acc, axis, (ParallelType.BIDx, ParallelType.BIDy)[axis])
    assert one.fusion != two.fusion and one.history != two.history
    from wsched.run.kernel_name import schedule_name

    assert schedule_name(one.fusion, one.options) == schedule_name(two.fusion, two.options)


def test_operands_lie_as_the_inputs_do() -> None:
    x, w = operands(k=128)
    columns = w.T.contiguous().T
    s = Schedule.of(definition(), SQUARE, [x, columns])
    assert s.history[0] == PrimitiveCall("set_allocation_domain", ("T1", (1, 0)))
    again = Schedule.parse(str(s))
    assert again.fusion == s.fusion
    (out,) = wsched.execute(again, [x, columns])
    assert error(out, x.float() @ w.float().T) < 4e-3
    with pytest.raises(InputError) as refused:
        wsched.compile(s, [x, w])
    assert str(refused.value) == (
        "input 1 is contiguous along K, the schedule reads it along N; "
        "wsched.Schedule(definition, inputs) makes one for these"
    )


def test_sizes_that_do_not_fit_are_refused_in_front_of_the_kernel() -> None:
    x, w = (torch.zeros(s, dtype=torch.bfloat16) for s in ((64, 64), (64, 72)))
    with pytest.raises(InputError) as refused:
        wsched.compile(Schedule.of(definition(), SQUARE), [x, w])
    assert str(refused.value) == (
        "K is 64 in dimension 1 of input 0 and 72 in dimension 1 of input 1"
    )


def test_parameters_beside_a_schedule() -> None:
    with pytest.raises(InputError) as refused:
        wsched.compile(cooperative(definition()), operands(), params=SQUARE)
    assert str(refused.value) == "params beside a Schedule, which has made every choice itself"


def test_batch_invariance_is_asked_of_the_schedule() -> None:
    x, w = operands()
    kernel = wsched.compile(cooperative(definition()), [x, w], batch_invariant=True)
    assert not hasattr(kernel, "params")
    split = Schedule.of(definition(), SCHEDULES["split_2"])  # parts of K alone, in a fixed order
    wsched.compile(split, [x, w], batch_invariant=True)
    with pytest.raises(ScheduleError) as refused:
        wsched.compile(
            Schedule.of(definition(), SCHEDULES["stream_k"]), [x, w], batch_invariant=True
        )
    assert str(refused.value).startswith(
        "ScheduleError[batch-invariant]: batch_invariant=True: the order in which the schedule "
        "sums K depends on the number of CTAs or tiles\n"
        "  legal here: loops over K whose extents depend on K alone\n  in:\n    T4_l_float:"
    )


def test_explained() -> None:
    s = cooperative(definition())
    found = wsched.explain(s, operands())
    assert found.kernel is not None and found.kernel.predicted_us is None
    assert found.kernel.schedule == tuple(map(str, s.history))
    assert f"schedule, call by call:\n  {s.history[0]}\n" in str(found)
    assert found.to_dict()["schedule"] == found.kernel.schedule


def test_traced() -> None:
    x, w = operands(128, 128, 64)
    kernel = wsched.compile(cooperative(definition()), [x, w])
    assert "compute" in kernel.trace(x, w).table()


@pytest.mark.parametrize(("proof", "due"), [(None, True), (True, True), (False, False)])
def test_a_schedule_by_calls_is_proved_before_it_is_launched(
    proof: bool | None, due: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless the caller says otherwise, and at once if the caller says so."""
    proved = []
    monkeypatch.setattr("wsched.front.kernels.require_proved", lambda k, _: proved.append(k.name))
    kernel = wsched.compile(cooperative(definition()), operands(), proof=proof)
    assert kernel.written is due
    assert proved == ([kernel.kernel.name] if proof else [])
    assert not wsched.compile(definition(), operands()).written


def test_several_tensors_at_once() -> None:
    """By names, by what calls have returned, or both; each once."""
    s = Schedule(definition())
    loads = s[s.a, s.b].cache_after(wsched.LoadStoreOpType.CpAsyncBulkTensorTile)
    assert s[loads, s.acc, s.a].names == (s.a, s.b, s.acc)
    assert s[s.outputs].names == s.outputs and s[loads].names == loads.names
    with pytest.raises(ScheduleError) as error:
        s[s.acc, "T99"]
    assert error.value.rule == "tensor"
    with pytest.raises(ScheduleError) as error:
        s[()]
    assert (error.value.rule, error.value.why) == ("tensor", "no tensor is given")
