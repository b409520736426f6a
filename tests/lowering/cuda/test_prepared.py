"""Launches that are packed once: their streams, devices and threads, and what they hand to C."""

from __future__ import annotations

import ctypes
import gc
import weakref
from collections import Counter
from threading import Thread
from typing import Any

import pytest

from lowering.cuda import launch
from lowering.cuda.launch import LoadedKernel
from lowering.ground.expr import Const
from lowering.kernel.kernel import CounterArray
from tests.lowering.cuda.fake_driver import Driver, Tensor
from tests.lowering.cuda.kernels import copy_kernel


def prepare(k: LoadedKernel, grid: int = 2) -> Any:
    tensors = {"A": Tensor(), "D": Tensor(address=8192)}
    return k.prepare(tensors, {"M": 100, "N": 128}, grid)  # type: ignore[arg-type]


def test_prepared_launch_asks_for_the_stream_each_time(driver: Driver) -> None:
    prepared = prepare(LoadedKernel(copy_kernel(), b""))
    for stream in (None, 5, 6, None, 5):
        prepared(stream)
    assert [x[3] for x in driver.named("launch")] == [1234, 5, 6, 1234, 5]
    assert set(driver.params) == {(b"map1", b"map2", 100, 128)}


def test_prepared_launches_have_arguments_of_their_own(driver: Driver) -> None:
    k = LoadedKernel(copy_kernel(), b"")
    first = prepare(k)
    others = {"A": Tensor(), "D": Tensor()}
    second = k.prepare(others, {"M": 7, "N": 8}, 2)  # type: ignore[arg-type]
    first()
    second()
    first()
    assert [p[2:] for p in driver.params] == [(100, 128), (7, 8), (100, 128)]


def test_prepared_launch_keeps_the_arguments_of_some_streams(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "_STREAMS", 3)
    prepared = prepare(LoadedKernel(copy_kernel(), b""))
    for stream in range(1, 9):
        prepared(stream)
        if stream <= 3:
            assert list(prepared._by_stream) == list(range(1, stream + 1))
    assert len(prepared._by_stream) <= 3
    assert [x[3] for x in driver.named("launch")] == list(range(1, 9))


def test_prepared_launch_on_a_stream_of_another_device(driver: Driver) -> None:
    tensors = {"A": Tensor(index=1), "D": Tensor(index=1)}
    kernel = LoadedKernel(copy_kernel(), b"")
    prepared = kernel.prepare(tensors, {"M": 100, "N": 128}, 2)  # type: ignore[arg-type]
    before = len(driver.named("device"))
    for stream in (5, None, 5):
        prepared(stream)
    assert driver.named("device")[before:] == [(1,)] * 3
    assert [x[3] for x in driver.named("launch")] == [5, 1234, 5]


def test_what_a_launch_points_to_lives_as_long(driver: Driver) -> None:
    """Another thread may clear the table between the look into it and the launch."""
    kernel = copy_kernel().declare(CounterArray("next", Const(1)))
    prepared = prepare(LoadedKernel(kernel, b"", lambda *_: Tensor(address=7000)))
    prepared(5)
    (arguments,) = prepared._by_stream.values()
    alive = weakref.ref(arguments[0]._obj.block)
    prepared._by_stream.clear()
    gc.collect()
    prepared._submit(*arguments)
    assert driver.params == [(b"map1", b"map2", 7000, 100)] * 2
    del arguments
    gc.collect()
    assert alive() is None


def test_arguments_are_what_ctypes_makes_of_them(driver: Driver) -> None:
    """Other objects are converted by each call, which takes 0.2 us more."""
    prepared = prepare(LoadedKernel(copy_kernel(), b""))
    prepared.here()
    *converted, extra = prepared._by_stream[1234]
    made = type(ctypes.c_void_p.from_param(1))
    assert [type(a) for a in converted] == [made] * 3 and extra is None


def test_prepared_launch_of_nothing(driver: Driver) -> None:
    prepare(LoadedKernel(copy_kernel(), b""), grid=0)()
    assert not driver.named("launch")


def test_prepared_launches_from_several_threads(driver: Driver) -> None:
    prepared = prepare(LoadedKernel(copy_kernel(), b""))
    threads = [Thread(target=lambda s=s: [prepared(s) for _ in range(50)]) for s in (5, 6, 7)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert Counter(x[3] for x in driver.named("launch")) == {5: 50, 6: 50, 7: 50}
