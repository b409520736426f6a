"""The CUDA driver: whether there is one, and a context for whoever calls it.

A thread has no context until torch, or somebody else, has done something on a device in it, and
most of the driver's functions refuse to work without one. So whoever calls it does that within
:func:`primary`. What is called for each launch does it where the driver said
:data:`INVALID_CONTEXT`, because asking costs as much as a launch.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lowering.ground.errors import InternalError, UnsupportedError
from lowering.target.targets import gpus

__all__ = ["INVALID_CONTEXT", "call", "driver_api", "has_driver", "launch_function", "primary"]

INVALID_CONTEXT = 201
"""CUDA_ERROR_INVALID_CONTEXT: what a thread without a context is told."""


def has_driver() -> bool:
    """Whether there is a driver's library; its devices are another question."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def driver_api() -> Any:
    """``cuda.bindings.driver``, after a check that there is a driver to call.

    Raises:
        UnsupportedError: no driver library, no cuda-bindings, or the driver finds no device.
    """
    if not has_driver():
        raise UnsupportedError(
            "running a kernel without a CUDA driver (libcuda.so.1)",
            f"a machine with an NVIDIA driver and {gpus()}",
            "CPU tensors run on the machine model",
        )
    try:
        from cuda.bindings import driver
    except ImportError as e:
        raise UnsupportedError(
            "launching without cuda-bindings", "cuda-bindings 12.9 or 13.x", "Install cuda-bindings"
        ) from e
    (status,) = driver.cuInit(0)
    if status != driver.CUresult.CUDA_SUCCESS:
        raise UnsupportedError(f"a driver that does not start ({status.name})", gpus())
    return driver


def launch_function() -> Any:
    """``cuLaunchKernelEx`` through ctypes, which lets other threads run while it is in the driver.

    A call with its four arguments prepared takes half of one with the eleven of ``cuLaunchKernel``
    (1.2 and 2.5 us with a function that does nothing, 2-core x86 machine, 2026-11-21), and makes no
    object, where cuda-bindings makes one for each handle.
    """
    return ctypes.CDLL("libcuda.so.1").cuLaunchKernelEx


def call(driver: Any, function: str, *args: Any) -> Any:
    """What a function of the driver returns beside its status, None if nothing.

    Raises:
        InternalError: the driver refuses it.
    """
    status, *result = getattr(driver, function)(*args)
    if status != driver.CUresult.CUDA_SUCCESS:
        raise InternalError("launch", f"{function}: {status.name}")
    return result[0] if result else None


@contextmanager
def primary(driver: Any, torch: Any, device: int) -> Iterator[None]:
    """Within it a device's primary context is current, which is the one that torch uses.

    Where a thread had none, it keeps it: as after anything that torch does there.

    Args:
        driver: the driver's API.
        torch: the module, which knows the device that a thread is on.
        device: index of a GPU.
    """
    with torch.cuda.device(device):
        if int(call(driver, "cuCtxGetCurrent")) == 0:
            context = call(driver, "cuDevicePrimaryCtxRetain", driver.CUdevice(device))
            call(driver, "cuCtxSetCurrent", context)
        yield
