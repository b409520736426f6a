"""Special registers as operations of ``nvvm``."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from lowering.mlir.ssa import I32, Value, Writer

__all__ = ["SPECIALS"]

Read = Callable[[Writer, Callable[[str], Value]], Value]


def _read(register: str) -> Read:
    """A register that nvvm names."""

    def read(out: Writer, special: Callable[[str], Value]) -> Value:
        return out.op(f"nvvm.read.ptx.sreg.{register} : i32", I32, register.replace(".", "_"))

    return read


def _warp(out: Writer, special: Callable[[str], Value]) -> Value:
    """Shuffled, so that the compiler knows that all lanes of a warp have the same number."""
    zero, five = out.constant(0), out.constant(5)
    number = out.op(f"arith.shrui {special('tid.x')}, {five} : i32", I32)
    lanes = f"{out.constant(-1)}, {number}, {zero}, {out.constant(31)}"
    return out.op(f"nvvm.shfl.sync idx {lanes} : i32 -> i32", I32, "warp")


def _lane(out: Writer, special: Callable[[str], Value]) -> Value:
    return out.op(f"arith.andi {special('tid.x')}, {out.constant(31)} : i32", I32, "lane")


def _warpgroup_warp(out: Writer, special: Callable[[str], Value]) -> Value:
    text = f"arith.andi {special('warp')}, {out.constant(3)} : i32"
    return out.op(text, I32, "warpgroup_warp")


SPECIALS: Mapping[str, Read] = {
    **{name: _read(name) for name in ("tid.x", "ctaid.x", "ctaid.y", "ctaid.z", "nctaid.x",
                                      "nctaid.y", "cluster.ctarank", "smid")},
    "warp": _warp, "lane": _lane, "warpgroup.warp": _warpgroup_warp,
}  # fmt: skip
"""How the frame of a kernel reads each special register; ``special`` gives another one."""
