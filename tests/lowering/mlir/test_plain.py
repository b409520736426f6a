"""Single elements of plain tensors, and tensor maps in device memory."""

from __future__ import annotations

import pytest

from lowering.kernel.kernel import Kernel
from lowering.kernel.text import parse_kernel
from lowering.mlir.emit import emit_mlir
from tests.lowering.mlir.interpreter import Thread, run


def kernel(body: str) -> Kernel:
    return parse_kernel(
        f"""
        kernel k threads 128 cluster 1 grid 1 {{
          param K: i32
          tensormap T[K] device: bf16[K, K] box 64x64 swizzle 128
          global ends: s32[K, K]
          global starts: s64[K]
          global flags: bool[K]
          {body}
        }}
        """
    )


def thread(body: str) -> Thread:
    given = {"%K": 7, "%ends_stride": 100, "tid.x": 0}
    return run(emit_mlir(kernel(body)).splitlines(), given)


@pytest.mark.parametrize(
    ("body", "text", "offset"),
    [
        ("w: i32 = ld.global.scalar ends[3, K]", "ld.global.s32 $0, [$1];", 307),
        (
            "w: i32 = ld.global.scalar ends[0, 2], order=acquire.gpu",
            "ld.acquire.gpu.global.s32 $0, [$1];",
            2,
        ),
        ("w: i64 = ld.global.scalar starts[5]", "ld.global.s64 $0, [$1];", 5),
        ("w: pred = ld.global.scalar flags[K]", "ld.global.u8 $0, [$1];", 7),
    ],
)
def test_loads(body: str, text: str, offset: int) -> None:
    (call,) = thread(body).of("ld.")
    assert call.text.split('"')[1] == text
    assert call.values[-1] == offset
    assert ("~{memory}" in call.text) is ("acquire" in text)


def test_a_condition_is_a_predicate() -> None:
    text = emit_mlir(kernel("w: pred = ld.global.scalar flags[K]\n if w { cta.sync }"))
    assert "arith.cmpi ne" in text
    assert "scf.if" in text


def test_stores() -> None:
    (call,) = thread("elect { st.global.scalar ends[2, 1], K * 2 }").of("st.global.s32")
    assert call.values[-2:] == (201, 14)


def test_tensor_maps_change() -> None:
    found = thread(
        """
        elect {
          tensormap.replace.global_address T[2], ends[1, 3]
          tensormap.replace.global_dim T[2], 0, K
          fence.proxy.tensormap.release
        }
        fence.proxy.tensormap.acquire T[2]
        """
    )
    (address,) = found.of("tensormap.replace.tile.global_address")
    (size,) = found.of("tensormap.replace.tile.global_dim")
    assert address.values[-2:] == (2, 103)
    assert "b32 [$0], 1, $1;" in size.text  # the outermost of two, which PTX has last
    assert size.values[-2:] == (2, 7)
    assert len(found.of("generic.release.gpu")) == len(found.of("generic.acquire.gpu")) == 1
