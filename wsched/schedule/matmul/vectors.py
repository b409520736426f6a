"""Registers for the rows and columns that an epilogue reads, so that they are loaded once."""

from __future__ import annotations

from lowering.target.target import Target
from lowering.target.targets import DEFAULT
from wsched.fusion import Fusion
from wsched.schedule.matmul.demands import Demands
from wsched.schedule.matmul.limits import registers_left
from wsched.schedule.matmul.params import MatmulParams

__all__ = ["vector_registers"]


def vector_registers(fusion: Fusion, params: MatmulParams, target: Target = DEFAULT) -> int:
    """Registers of a thread for vectors that are loaded in front of the chunks of an epilogue.

    Of operands of 8 bits, whose tiles take half the time of wider ones, so that each wait for a
    load counts twice; of wider ones where operands are exchanged: rows of the result are columns of
    such a tile, whose threads read a factor of rows one by one, in each chunk anew. Of others
    nobody has measured it. Promoted sums leave the registers of their first accumulator free.
    """
    demands = Demands.of(fusion, target)
    if demands.operand.bytes > 1 and not params.exchange_operands:
        return 0
    return max(registers_left(demands, params), 0)
