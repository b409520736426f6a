"""The C++ text of the heuristic plugin: wsched's candidates and constants, then ``plugin.h``.

``plugin.h`` has the formula of ``wsched.nvfuser.choice`` once more, twenty lines that a test holds
to the same choice on random shapes. Everything else comes from Python. A table of choices by
nearest shape, without the formula, lost 8 % of the predicted time in the mean and 60 % at worst
(150 shapes, 4164 entries): how tiles divide into rounds depends on the exact sizes.
"""

from __future__ import annotations

from pathlib import Path

from wsched.choose.cost_model import GHZ
from wsched.choose.step import FLOPS_PER_CYCLE
from wsched.fusion import DataType
from wsched.nvfuser import choice
from wsched.nvfuser.choice import Candidate, candidates

__all__ = ["SMS", "plugin_source"]

SMS = 132
"""Multiprocessors of an H100 SXM and an H200."""

_RESULTS = {"NARROW": DataType.BFloat16, "WIDE": DataType.Float}
"""Name of the candidates -> type of the result; the plugin is not told of more than one."""

_OPERAND = DataType.BFloat16


def plugin_source(version: str, sms: int = SMS) -> str:
    """The plugin's C++.

    Args:
        version: what the library says of itself.
        sms: multiprocessors to plan for; the interface does not tell.
    """
    constants = {
        "SMS": sms,
        "START_US": choice.START_US,
        "DRAIN": choice.DRAIN,
        "ELEMENT": choice.ELEMENT,
        "LATENCY": choice.LATENCY,
        "FILL_BYTES": choice.FILL_BYTES,
        "GAIN": choice.GAIN,
        "FLOPS_PER_CYCLE": FLOPS_PER_CYCLE,
        "CYCLES_PER_US": GHZ * 1e3,
        "OPERAND_BYTES": _OPERAND.bytes,
    }
    lines = [
        '#include "scheduler/matmul_heuristic_plugin_api.h"',
        "",
        "namespace wsched {",
        f'constexpr const char* VERSION = "{version}";',
        *(f"constexpr double {name} = {value!r};" for name, value in constants.items()),
        f"constexpr unsigned GROUPS[] = {{{', '.join(map(str, choice.GROUPS))}}};",
        "struct Candidate { uint16_t m, n, k; uint8_t warpgroups, stages; };",
        f"constexpr Candidate USUAL = {_tile(Candidate(choice.USUAL, 0))};",
    ]
    for name, result in _RESULTS.items():
        found = candidates(_OPERAND, (result,), (), True)
        lines += [f"constexpr Candidate {name}[] = {{", *(f"    {_tile(c)}," for c in found), "};"]
    lines += ["} // namespace wsched", "", ""]
    body = (Path(__file__).parent / "plugin.h").read_text(encoding="utf-8")
    return "\n".join(lines) + body


def _tile(c: Candidate) -> str:
    return f"{{{c.tile.m}, {c.tile.n}, {c.tile.k}, {c.tile.warpgroups}, {c.stages}}}"
