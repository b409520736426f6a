"""Devices that can be planned for without being there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["BOARD_WATTS", "GPUS", "H200", "H200_L2_BYTES", "H200_SMS", "Gpu"]

H200, H200_L2_BYTES, H200_SMS = "NVIDIA H200", 60 * 2**20, 132
"""Name of the device that is planned for where there is none, the size of its L2, its SMs."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """A device to plan for: the name that its driver tells, multiprocessors, bytes of L2."""

    name: str
    sms: int
    l2_bytes: int

    @staticmethod
    def of(properties: Any) -> Gpu:
        """The device that ``torch.cuda.get_device_properties`` describes."""
        p = properties
        return Gpu(p.name, p.multi_processor_count, p.L2_cache_size)

    def __str__(self) -> str:
        return f"{self.name} with {self.sms} multiprocessors"


GPUS = {
    "H200": Gpu(H200, H200_SMS, H200_L2_BYTES),
    "H100": Gpu("NVIDIA H100 80GB HBM3", 132, 50 * 2**20),
    "H100 PCIe": Gpu("NVIDIA H100 PCIe", 114, 50 * 2**20),
}
"""Devices that can be planned for without being there, by their short names."""

BOARD_WATTS = {GPUS["H200"].name: 700, GPUS["H100"].name: 700, GPUS["H100 PCIe"].name: 350}
"""Power limits of boards by the names of their devices (NVIDIA H200 and H100 Tensor Core GPU data
sheets, maximum thermal design power)."""
