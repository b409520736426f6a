"""The quick way from a call to a launch, on CPU tensors with a driver that does nothing."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import Any

import pytest

import wsched
from lowering.cuda.launch import LoadedKernel, PreparedLaunch
from tests.schedules import definition
from wsched.bench.host import fake_kernel
from wsched.front import kernels, known
from wsched.importer.input_error import InputError
from wsched.program.classes import class_key
from wsched.run import arguments, compiled, host
from wsched.run.host import HostPlan, Plans
from wsched.run.kept import Kept

torch = pytest.importorskip("torch", reason="torch is not installed")

TEXT = definition()


def zeros(*shape: int, dtype: Any = torch.bfloat16) -> Any:
    return torch.zeros(shape, dtype=dtype)


X, W = zeros(16, 64), zeros(24, 64)


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(kernels, "_kernels", Kept())
    monkeypatch.setattr(known, "_texts", {})
    return fake_kernel(TEXT, [X, W])


@pytest.fixture
def packed(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The tensors of every launch that is packed."""
    seen: list[Any] = []
    prepare = LoadedKernel.prepare

    def counting(self: LoadedKernel, tensors: Any, params: Any, grid: int) -> PreparedLaunch:
        seen.append((dict(tensors), dict(params), grid))
        return prepare(self, tensors, params, grid)

    monkeypatch.setattr(LoadedKernel, "prepare", counting)
    return seen


def fixed_outputs(monkeypatch: pytest.MonkeyPatch, *outputs: Any) -> None:
    """Let the allocator of a plan return these, one after the other, again and again."""
    given = list(outputs)

    def allocate() -> Any:
        given.append(given.pop(0))
        return given[-1]

    monkeypatch.setattr(host, "allocator", lambda like: allocate)


def test_a_class_is_checked_once(
    kernel: Any, packed: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    (d,) = kernel(X, W)
    fixed_outputs(monkeypatch, d)
    kernel.__dict__.pop("_plans")
    for _ in range(2):
        kernel(X, W)  # makes a plan, then a launch into d
    del packed[:]
    monkeypatch.setattr(compiled, "bind", None)
    for _ in range(3):
        assert kernel(X, W)[0] is d
    assert not packed


def test_other_addresses_are_packed_anew(
    kernel: Any, packed: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    d, e = zeros(16, 24), zeros(16, 24)
    fixed_outputs(monkeypatch, d, e)
    kernel(X, W)  # into an output of its own
    del packed[:]
    for _ in range(4):
        kernel(X, W)
    assert [t["T5"].data_ptr() for t, _, _ in packed] == [d.data_ptr(), e.data_ptr()]
    other = zeros(16, 64)
    kernel(other, W)
    assert packed[-1][0]["T0"].data_ptr() == other.data_ptr()


@pytest.mark.parametrize("given", [lambda d: d, lambda d: [d], lambda d: (d,)])
def test_a_class_with_results_is_checked_once(
    given: Callable[[Any], Any], kernel: Any, packed: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is asked of addresses, that results lie where no inputs do, is asked of each."""
    both = zeros(40, 64)
    d, e = zeros(16, 24), both.view(-1)[: 16 * 24].view(16, 24)
    kernel(X, W, out=given(d))
    checked = []
    results = compiled.results
    monkeypatch.setattr(compiled, "results", lambda *x: checked.append(x) or results(*x))
    for _ in range(3):
        (made,) = kernel(X, W, out=given(d))
        assert made is d
    assert len(packed) == 1 and not checked
    assert kernel(X, W, out=given(e))[0] is e and len(packed) == 2 and not checked
    with pytest.raises(InputError, match="out"):
        kernel(both[:16], W, out=given(e))
    for other in (zeros(16, 32), zeros(16, 24).half(), zeros(16, 48)[:, ::2]):
        with pytest.raises(wsched.WschedError):
            kernel(X, W, out=given(other))
    kernel(X, W, out=given(zeros(16, 32)[:, :24]))
    assert checked


@pytest.mark.parametrize(
    "change",
    [
        lambda x: zeros(17, 64),  # shape
        lambda x: zeros(16, 72)[:, :64],  # stride
        lambda x: zeros(16 * 64 + 8).as_strided((16, 64), (64, 1), 4),  # alignment, refused
        lambda x: x.half(),  # type, refused
    ],
)
def test_another_class_is_checked(
    change: Callable[[Any], Any], kernel: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel(X, W)
    checked = []
    bind = arguments.bind

    def counting(*args: Any) -> Any:
        checked.append(args)
        return bind(*args)

    monkeypatch.setattr(compiled, "bind", counting)
    with suppress(wsched.WschedError):
        kernel(change(X), W)
    assert checked


def test_outputs_are_new_each_time(kernel: Any) -> None:
    results = [kernel(X, W)[0] for _ in range(5)]
    assert len({r.data_ptr() for r in results}) == 5
    assert {(r.shape, r.stride(), r.dtype) for r in results} == {
        (torch.Size((16, 24)), (24, 1), torch.bfloat16)
    }


@pytest.mark.parametrize(
    "like",
    [
        zeros(3, 4), zeros(1, 4), zeros(3, 1), zeros(5), zeros(4, 3).T, zeros(3, 8)[:, :4],
        zeros(2, 3, 4, dtype=torch.float32),
    ],
)  # fmt: skip
def test_allocated_as_the_first_one(like: Any) -> None:
    made = host.allocator(like)()
    assert (made.shape, made.stride(), made.dtype) == (like.shape, like.stride(), like.dtype)
    assert made.data_ptr() != like.data_ptr()
    assert made.untyped_storage().nbytes() >= made.numel() * made.element_size()


@pytest.mark.slow
def test_plans_keep_no_result_alive(kernel: Any) -> None:
    (d,) = kernel(X, W)
    kernel(X, W)
    gone = weakref.ref(d)
    del d
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("way", ["call", "bind"])
def test_operands_are_copied_anew_for_each_launch(
    way: str, kernel: Any, packed: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Into rows for TMA; the other operand is read in place, and nothing is checked again."""
    x, w = torch.arange(16 * 61).reshape(16, 61).bfloat16(), zeros(24, 64)[:, :61]
    d, copy = zeros(16, 24), zeros(16, 64)[:, :61]
    if way == "bind":
        run = kernel.bind(x, w, out=d)
    else:
        kernel(x, w)
        run = lambda: kernel(x, w)  # noqa: E731
        run()
    monkeypatch.setattr(compiled, "unreadable", None)
    seen = [dict(tensors) for tensors, _, _ in packed]
    for step in range(3):
        x += step
        run()
        read = packed[-1][0]["T0"]
        assert read.data_ptr() != x.data_ptr() and read.stride() == copy.stride()
        assert torch.equal(read, x)
    assert {t["T1"].data_ptr() for t in seen} == {w.data_ptr()}
    if way == "bind":
        assert len(packed) == 1


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "_LAUNCHES", 3)
    monkeypatch.setattr(host, "_PLANS", 2)
    launched: list[int] = []
    like = zeros(2)  # which stays, so that no result of a call has its address
    plan = HostPlan(lambda i, o: lambda: launched.append(1), [X], [like], lambda: None)
    kept = [plan([X])[0] for _ in range(8)]
    assert len(plan._launches) == 3 and len(launched) == len(kept) == 8
    plans = Plans()
    for n in range(4):
        plans.add((n,), plan)
    assert plans.get((0,)) is None and plans.get((3,)) is plan


def test_threads_share_a_kernel(kernel: Any) -> None:
    failed: list[BaseException] = []

    def work(rows: int) -> None:
        try:
            for _ in range(50):
                assert kernel(zeros(rows, 64), W)[0].shape == (rows, 24)
        except BaseException as e:
            failed.append(e)

    threads = [Thread(target=work, args=(n,)) for n in (8, 16, 24)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed


# --- bind -----------------------------------------------------------------------------------------


def test_a_bound_launch_packs_once(kernel: Any, packed: list[Any]) -> None:
    d = zeros(16, 24)
    bound = kernel.bind(X, W, out=d)
    assert len(packed) == 1
    for _ in range(3):
        (result,) = bound()
        assert result is d
    assert len(packed) == 1
    assert bound.inputs == (X, W)


@pytest.mark.slow
def test_a_bound_launch_keeps_its_tensors(kernel: Any) -> None:
    x = zeros(16, 64)
    alive = weakref.ref(x)
    bound = kernel.bind(x, W)
    del x
    gc.collect()
    assert alive() is not None
    bound()


def test_a_bound_launch_on_the_machine() -> None:
    x, w = torch.ones(16, 64).bfloat16(), torch.ones(24, 64).bfloat16()
    bound = wsched.compile(TEXT, [x, w]).bind(x, w)
    for factor in (1, 2):
        assert torch.equal(bound()[0], torch.full((16, 24), 64.0 * factor).bfloat16())
        x *= 2


def test_a_bound_launch_of_nothing(kernel: Any, packed: list[Any]) -> None:
    assert kernel.bind(zeros(0, 64), W)()[0].shape == (0, 24)
    assert not packed


# --- keys -----------------------------------------------------------------------------------------


def test_what_is_in_a_class() -> None:
    same = [[X, W], [zeros(16, 64), W]]
    assert class_key(same[0]) == class_key(same[1])
    others = [
        [zeros(17, 64), W], [zeros(16, 72)[:, :64], W], [X.half(), W], [X.to("meta"), W], [W, X],
        [zeros(1025)[1:].view(16, 64), W], [X], [X, 3], [X, 3.0], [3, X], [X, True],
    ]  # fmt: skip
    keys = [class_key(inputs) for inputs in [same[0], *others]]
    assert None not in keys and len(set(keys)) == len(keys)
    assert class_key([X, 3]) == class_key([zeros(16, 64), 4])
    assert class_key([X, 3]) != class_key([zeros(1025)[1:].view(16, 64), 3])
    assert class_key([X, "text"]) is None
    assert class_key([X, W.to_sparse()]) is None


def test_execute_finds_the_kernel(kernel: Any, packed: list[Any]) -> None:
    wsched.execute(TEXT, [X, W])
    assert packed and len(known.known(TEXT).routes) == 1
    assert next(iter(known.known(TEXT).routes.values())).kernel is kernel
