"""Descriptors of the tensors behind a kernel's tensor maps, made once for each tensor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lowering.cuda.driver import primary
from lowering.cuda.tensormap import encode, layout_of
from lowering.ground.errors import InternalError, UnsupportedError
from lowering.ground.expr import evaluate
from lowering.ground.locks import Lock
from lowering.ground.recent import bounded
from lowering.kernel.kernel import Kernel

if TYPE_CHECKING:
    import torch

__all__ = ["Descriptors"]

_REMEMBERED = 1024
"""Tensors whose descriptors a kernel keeps; making one again takes some ten microseconds."""

_PLACE = 512
"""Bytes for tensors without elements: what a box's row has at most."""


class Descriptors:
    """Makes the descriptors of a kernel's launches; threads may share it.

    Args:
        driver: the driver's API.
        kernel: whose tensor maps they are.
        torch: the module, which knows the device that a thread is on.
    """

    def __init__(self, driver: Any, kernel: Kernel, torch: Any) -> None:
        self._driver, self._kernel, self._torch = driver, kernel, torch
        self._lock = Lock()
        self._known: dict[tuple[Any, ...], tuple[bytes, int]] = {}
        self._nowhere: dict[torch.device, torch.Tensor] = {}

    def __len__(self) -> int:
        return len(self._known)

    def of(self, tensors: Mapping[str, torch.Tensor]) -> tuple[list[bytes], int]:
        """The descriptors of each tensor map that is passed by value, and the tensors' device, -1
        where there is none.

        Raises:
            UnsupportedError: a tensor that TMA cannot address (``layout_of``), or several devices.
            InternalError: a missing tensor.
        """
        descriptors, device = [], -1
        for i, m in enumerate(self._kernel.tensor_maps):
            if m.device:
                continue
            parts = []
            for name, _ in m.arguments(1 if m.count is None else evaluate(m.count, {})):
                if name not in tensors:
                    raise InternalError("launch", f"no argument {name}")
                t = tensors[name]
                key = (i, t.data_ptr(), t.shape, t.stride(), t.dtype, t.device)
                descriptor, where = self._known.get(key) or self._make(key, t)
                if device not in (-1, where):
                    raise UnsupportedError("tensors of several devices", "tensors of one device")
                device = where
                parts.append(descriptor)
            descriptors.append(b"".join(parts))
        return descriptors, device

    def _make(self, key: tuple[Any, ...], tensor: torch.Tensor) -> tuple[bytes, int]:
        found = self.encode(key[0], tensor)
        with self._lock:
            bounded(self._known, key, found, _REMEMBERED)
        return found

    def _somewhere(self, device: torch.device) -> int:
        """Where a tensor without elements, whose address is null, may lie: copies of boxes that are
        out of bounds fault all the same where their map's address is not mapped.
        """
        if device not in self._nowhere:
            self._nowhere[device] = self._torch.empty(
                _PLACE, dtype=self._torch.uint8, device=device
            )
        return int(self._nowhere[device].data_ptr())

    def encode(self, index: int, tensor: torch.Tensor) -> tuple[bytes, int]:
        """The descriptor of a tensor for the tensor map of that number, and the tensor's device.

        Raises:
            UnsupportedError: a tensor that TMA cannot address (``layout_of``).
            InternalError: the driver refuses it.
        """
        m = self._kernel.tensor_maps[index]
        layout, device = layout_of(m, tensor), int(tensor.device.index)
        if not layout.address:
            layout = replace(layout, address=self._somewhere(tensor.device))
        with primary(self._driver, self._torch, device):
            return encode(self._driver, m, layout), device
