"""Descriptors, scale-d, and that nothing reads sums ahead of a wait."""

from __future__ import annotations

import re

import pytest

from lowering.kernel.descriptor import MatrixDescriptor, tile_byte
from lowering.kernel.kernel import Kernel
from lowering.kernel.text import parse_kernel
from lowering.mlir.emit import emit_mlir
from tests.lowering.mlir.interpreter import Thread, run

BASE = 1 << 24 | 1024


def kernel(a: str, b: str, more: str = "", *, swizzle: int = 128, after: str = "") -> Kernel:
    return parse_kernel(
        f"""
        kernel k threads 128 cluster 1 grid 1 {{
          param K: i32
          shared A: f16[2][128x128] swizzle {swizzle} at 0
          shared B: f16[2][96x128] swizzle {swizzle} at 131072
          zero: frag<f32, 128x96> = frag.fill 0.0
          wgmma.fence
          acc: frag<f32, 128x96, async> = wgmma zero, {a}, {b}{more}
          {after}
        }}
        """
    )


def executed(k: Kernel) -> Thread:
    return run(emit_mlir(k).splitlines(), {"%smem": BASE, "%K": 1, "tid.x": 0})


def descriptor(k: Kernel, name: str, trans: bool, *at: int) -> int:
    buffer = k.buffer(name)
    assert buffer.offset is not None
    place = BASE + buffer.offset + tile_byte(buffer, *at)
    return MatrixDescriptor.of(buffer, trans).at(place)


@pytest.mark.parametrize("swizzle", [16, 32, 64, 128])
def test_descriptors_are_the_shared_ones(swizzle: int) -> None:
    k = kernel("A[1, 0, 48]", "B[1, 0, 112]", swizzle=swizzle)
    calls = executed(k).of("nvvm.wgmma.mma_async")
    found = [tuple(v % (1 << 64) for v in c.values[:2] if isinstance(v, int)) for c in calls]
    b = descriptor(k, "B", False, 1, 0, 112)
    assert found == [(descriptor(k, "A", False, 1, row, 48), b) for row in (0, 64)]


def test_scale_d_that_is_known_is_an_attribute() -> None:
    texts = [emit_mlir(kernel("A[0, 0, 0]", "B[0, 0, 0]", f", accumulate={x}")) for x in
             ("true", "false")]  # fmt: skip
    assert ["D [<f32>, <one>]" in text for text in texts] == [True, False]
    assert "D [<f32>, <zero>]" in texts[1]
    assert all("wgmma.mma_async.sync" not in text for text in texts)


def test_scale_d_that_is_not_known_is_a_predicate() -> None:
    k = kernel("A[0, 0, 0]", "B[0, 0, 0]", ", accumulate=0 < K")
    calls = executed(k).of("wgmma.mma_async.sync.aligned.m64n96k16.f32.f16.f16")
    assert len(calls) == 2
    assert [c.values[-1] for c in calls] == [True, True]
    assert "$96, $97, $98, 1, 1, 0, 0;" in calls[0].text
    constraints = calls[0].text.split('"')[3]
    assert constraints.split(",")[-4:] == ["l", "l", "b", "~{memory}"]


def test_mn_major_operands_are_columns_of_a_and_rows_of_b() -> None:
    text = """
    kernel k threads 128 cluster 1 grid 1 {
      shared A: f16[2][16x128] swizzle 128 at 0
      shared B: f16[2][16x128] swizzle 128 at 32768
      zero: frag<f32, 64x128> = frag.fill 0.0
      acc: frag<f32, 64x128, async> = wgmma zero, A[0, 0, 0], B[1, 0, 0], trans_a=true, trans_b=true
    }
    """
    k = parse_kernel(text)
    (call,) = executed(k).of("nvvm.wgmma.mma_async")
    assert "A [<f16>, <one>, <col>], B [<f16>, <one>, <row>]" in call.text
    assert call.values[0] == descriptor(k, "A", True, 0, 0, 0)
    assert call.values[1] == descriptor(k, "B", True, 1, 0, 0)


def test_settled_sums_are_taken_behind_the_wait() -> None:
    after = "wgmma.commit\n sum: frag<f32, 128x96> = wgmma.wait acc, 0"
    lines = emit_mlir(kernel("A[0, 0, 0]", "B[0, 0, 0]", after=after)).splitlines()
    wait = next(i for i, line in enumerate(lines) if "wgmma.wait.group.sync.aligned 0" in line)
    pins = [i for i, line in enumerate(lines) if 'att "", "=f' in line]
    assert len([i for i in pins if i > wait]) == 2
    assert len(pins) == 4  # and the fill, ahead of the fence


def test_sums_in_flight_are_left_alone() -> None:
    after = "wgmma.commit\n sum: frag<f32, 128x96, async> = wgmma.wait acc, 1"
    text = emit_mlir(kernel("A[0, 0, 0]", "B[0, 0, 0]", after=after))
    assert len(re.findall(r'att "", "=f', text)) == 2


def test_some_columns_of_the_sums() -> None:
    text = emit_mlir(kernel("A[0, 0, 0]", "B[0, 0, 0]", ", col=32, cols=64"))
    assert "n = 64" in text
    assert text.count("llvm.insertvalue") == 2 * 32
    assert "!f32x32 = " in text
