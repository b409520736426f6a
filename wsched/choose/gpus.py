"""Devices that can be planned for without being there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lowering.target.blackwell import BLACKWELL
from lowering.target.hopper import HOPPER
from lowering.target.target import Target
from lowering.target.targets import DEFAULT, TARGETS

__all__ = [
    "BOARD_WATTS", "GPUS", "H200", "H200_L2_BYTES", "H200_SMS", "MOST_SMS", "Gpu", "gpu_of",
]  # fmt: skip

H200, H200_L2_BYTES, H200_SMS = "NVIDIA H200", 60 * 2**20, HOPPER.sms
"""Name of the device that is planned for where there is none, the size of its L2, its SMs."""

MOST_SMS = 4096
"""Multiprocessors that may be asked for; GPUs have a few hundred."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """A device to plan for: the name that its driver tells, multiprocessors, bytes of L2, and what
    kernels for it are made for.
    """

    name: str
    sms: int
    l2_bytes: int
    target: Target = DEFAULT

    @staticmethod
    def of(properties: Any) -> Gpu:
        """The device that ``torch.cuda.get_device_properties`` describes; one that there are no
        kernels for is planned for as if it were the first target.
        """
        p = properties
        capability = (p.major, p.minor)
        target = next((t for t in TARGETS if t.capability == capability), DEFAULT)
        return Gpu(p.name, p.multi_processor_count, p.L2_cache_size, target)

    def __str__(self) -> str:
        return f"{self.name} with {self.sms} multiprocessors"


GPUS = {
    "H200": Gpu(H200, H200_SMS, H200_L2_BYTES, HOPPER),
    "H200 NVL": Gpu(f"{H200} NVL", H200_SMS, H200_L2_BYTES, HOPPER),
    "H100": Gpu("NVIDIA H100 80GB HBM3", HOPPER.sms, 50 * 2**20, HOPPER),
    "H100 PCIe": Gpu("NVIDIA H100 PCIe", 114, 50 * 2**20, HOPPER),
    "B200": Gpu("NVIDIA B200", BLACKWELL.sms, 253 * 2**19, BLACKWELL),
}
"""Devices that can be planned for without being there, by their short names.

An H200 NVL is an H200 of up to 600 W instead of 700, with the same memory, 141 GB at 4.8 TB/s
(NVIDIA H200 Tensor Core GPU data sheet, both columns). It has as many multiprocessors; the L2 is
taken to be the same, too. The clock that the cost model leaves a kernel is that of 700 W: what
power makes longer is longer still there.

What a B200's driver tells (name, 148 multiprocessors, 126.5 MiB) is from a query that others have
published (pytorch/ao, pull request 4002); NVIDIA's Blackwell tuning guide has 126 MB of L2.
"""

BOARD_WATTS = {
    GPUS["H200"].name: 700, GPUS["H200 NVL"].name: 600, GPUS["H100"].name: 700,
    GPUS["H100 PCIe"].name: 350,
}  # fmt: skip
"""Power limits of boards by the names of their devices (NVIDIA H200 and H100 Tensor Core GPU data
sheets, maximum thermal design power)."""


def gpu_of(target: Target) -> Gpu:
    """The device that is planned for where none of a target is there: its first one."""
    return next(gpu for gpu in GPUS.values() if gpu.target.arch == target.arch)
