"""Kernels in which CTA 1 of a cluster hands its half of a sum over k to CTA 0, which adds it up.

The sum goes through a ring of two stages of 16 columns whose filler sits in another CTA than its
reader: CTA 0's ``full`` says that a stage is filled, CTA 1's ``empty`` that it has been read.
"""

from __future__ import annotations

from string import Template

ADVERSARIES = ("eager", "lazy", "random")

_KERNEL = Template("""
kernel halves threads 128 cluster 2 grid 2 {
  tensormap a: bf16[64, 128] box 64x64 swizzle 128
  tensormap b: bf16[64, 128] box 64x64 swizzle 128
  global d: f32[64, 64]
  shared a_s: bf16[1][64x64] swizzle 128 at 0
  shared b_s: bf16[1][64x64] swizzle 128 at 8192
  shared sum_s: f32[2][64x16] swizzle 64 at 16384
  shared own_s: f32[2][64x16] swizzle 64 at 24576
  mbarrier loaded[1] arrivals 1 at 32768
  mbarrier full[2] arrivals $arrivals at 32776
  mbarrier empty[2] arrivals 4 at 32792
  let rank: i32 = %cluster.ctarank
  on %warp 0 { elect {
    mbarrier.init loaded[0], 1
    for s in 0 .. 2 {
      mbarrier.init full[s], $arrivals
      mbarrier.init empty[s], 4
    }
    fence.mbarrier_init
  } }
  cluster.sync
  on %warp 0 { elect {
    mbarrier.expect_tx loaded[0], bytes=16384
    tma.load a_s[0, 0, 0], a[0, rank * 64], bar=loaded[0]
    tma.load b_s[0, 0, 0], b[0, rank * 64], bar=loaded[0]
  } }
  mbarrier.wait loaded[0], 0
  zero: frag<f32, 64x64> = frag.fill 0.0
  wgmma.fence
  w0: frag<f32, 64x64, async> = wgmma zero, a_s[0, 0, 0], b_s[0, 0, 0], accumulate=false
  w1: frag<f32, 64x64, async> = wgmma w0, a_s[0, 0, 16], b_s[0, 0, 16]
  w2: frag<f32, 64x64, async> = wgmma w1, a_s[0, 0, 32], b_s[0, 0, 32]
  w3: frag<f32, 64x64, async> = wgmma w2, a_s[0, 0, 48], b_s[0, 0, 48]
  wgmma.commit
  sum: frag<f32, 64x64> = wgmma.wait w3, 0
$chunks
  cluster.sync
}
""")

_CHUNK = Template("""\
  mine$i: frag<f32, 64x16> = frag.columns sum, $column
  if rank == 1 {
    mbarrier.wait empty[$stage], $free, order=acquire.cluster
$fill
  } else {
$expect
    mbarrier.wait full[$stage], $there, order=acquire.cluster
    other$i: frag<f32, 64x16> = ld.shared $source
    both$i: frag<f32, 64x16> = frag.pointwise add, mine$i, other$i
$read
    frag.store_global d[0, $column], both$i
  }""")

_STORE = """\
    st.shared sum_s[$stage, 0, 0], mine$i, cta=0
    warp.sync
    elect { mbarrier.arrive full[$stage], cta=0, order=release.cluster }"""

_ASYNC = "    st.async sum_s[$stage, 0, 0], mine$i, full[$stage], 0"

_COPY = """\
    st.shared own_s[$stage, 0, 0], mine$i
    fence.proxy.async
    cta.sync
    on %warp 0 { elect { bulk.copy sum_s[$stage, 0, 0], own_s[$stage, 0, 0], full[$stage], 0 } }
"""

_PULL = """\
    st.shared own_s[$stage, 0, 0], mine$i
    warp.sync
    elect { mbarrier.arrive full[$stage], cta=0, order=release.cluster }"""

_EXPECT = "    on %warp 0 { elect { mbarrier.expect_tx full[$stage], bytes=4096 } }"

_READ = """\
    warp.sync
    elect { mbarrier.arrive empty[$stage], cta=1, order=release.cluster }"""

_FENCED = "    fence.proxy.async\n" + _READ


def _text(
    fill: str, *, counted: bool, source: str = "sum_s[$stage, 0, 0]", read: str = _READ
) -> str:
    chunks = []
    for i in range(4):
        values = {"i": i, "column": 16 * i, "stage": i % 2, "free": 1 - i // 2, "there": i // 2}
        parts = {"fill": fill, "read": read, "source": source, "expect": _EXPECT * counted}
        inner = {name: Template(text).substitute(values) for name, text in parts.items()}
        chunks.append(_CHUNK.substitute(values, **inner))
    return _KERNEL.substitute(arrivals=1 if counted else 4, chunks="\n".join(chunks))


STORED = _text(_STORE, counted=False)
"""``st.shared`` into the peer; each warp arrives behind its own stores."""

SENT = _text(_ASYNC, counted=True)
"""``st.async``: the peer's barrier counts the bytes."""

COPIED = _text(_COPY, counted=True, read=_FENCED)
"""``bulk.copy`` of a stage that the CTA filled in its own memory."""

PULLED = _text(_PULL, counted=False, source="own_s[$stage, 0, 0], cta=1")
"""``ld.shared`` from the peer, which filled a stage in its own memory."""

ALL = {"st.shared": STORED, "st.async": SENT, "bulk.copy": COPIED, "ld.shared": PULLED}
