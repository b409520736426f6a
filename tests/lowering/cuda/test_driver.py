"""A context for whoever calls the driver, one made up here; tests/gpu has the real one."""

from __future__ import annotations

import ctypes
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from lowering.cuda.driver import driver_api
from lowering.cuda.launch import LoadedKernel
from lowering.ground.errors import UnsupportedError
from tests.lowering.cuda.fake_driver import Driver, Tensor
from tests.lowering.cuda.kernels import copy_kernel


def prepare(k: LoadedKernel, index: int = 0, address: int = 4096) -> Any:
    tensors = {"A": Tensor(index=index, address=address), "D": Tensor(index=index, address=8192)}
    return k.prepare(tensors, {"M": 100, "N": 128}, 2)  # type: ignore[arg-type]


def in_a_thread(work: Any) -> None:
    """What it raises is raised here."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(work).result()


@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize("known", [False, True], ids=["new", "known"])
def test_a_thread_without_a_context_gets_the_devices(
    driver: Driver, index: int, known: bool
) -> None:
    """For tensors that it has not met, also where another thread has prepared the device."""
    k = LoadedKernel(copy_kernel(), b"")
    if known:
        prepare(k, index)()
    before = len(driver.named("launch"))
    in_a_thread(lambda: prepare(k, index, address=1 << 20)())
    assert len(driver.named("launch")) == before + 1
    assert set(driver.contexts.values()) <= {99, 99 + index}
    assert len(driver.contexts) == 1 + known


def test_a_thread_without_a_context_launches_what_another_has_packed(driver: Driver) -> None:
    """The driver is asked for a context where it refused, not by each launch."""
    prepared = prepare(LoadedKernel(copy_kernel(), b""))
    prepared()
    before = len(driver.named("current"))
    in_a_thread(lambda: [prepared(5) for _ in range(3)])
    assert driver.named("current")[before:] == [(99,)]
    assert [x[3] for x in driver.named("launch")] == [1234, 5, 5, 5]


def test_a_thread_without_a_context_counts_clusters(driver: Driver) -> None:
    k = LoadedKernel(replace(copy_kernel(), cluster=4), b"")
    k.prepare_device(0)
    in_a_thread(lambda: k.resident_ctas(0))
    assert k.resident_ctas(0) == 12


def test_who_leaves_registers_leaves_shared_memory(driver: Driver) -> None:
    """A multiprocessor divides its memory as the CTA that comes first wants it."""
    carveout = "CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT"
    for registers, asked in ((None, []), (56, [100])):
        LoadedKernel(replace(copy_kernel(), registers=registers), b"").prepare_device(0)
        assert [x[1] for x in driver.named("attribute") if x[0] == carveout] == asked


def test_missing_driver_is_unsupported(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> None:
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", absent)
    with pytest.raises(UnsupportedError) as e:
        driver_api()
    assert str(e.value) == (
        "running a kernel without a CUDA driver (libcuda.so.1) is not supported; supported: a "
        "machine with an NVIDIA driver and a GPU of compute capability 9.0 or 10.0. CPU tensors "
        "run on the machine model"
    )
