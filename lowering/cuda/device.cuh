// PTX for sm_90a in C++ clothes: one function per instruction form that the emitter uses, named
// after the instruction. No CUDA headers are needed. Shared-memory addresses are 32-bit offsets in
// the shared::cta window; `map` is the generic address of a tensor map parameter.

typedef unsigned long long u64;

struct alignas(64) TensorMap {
  u64 words[16];
};

#define PTX __device__ __forceinline__

namespace ptx {

// --- scalars ---------------------------------------------------------------------------------
// Operands are not negative (the kernel IR guarantees it), so unsigned division is exact.

PTX int div(int a, int b) { return int(unsigned(a) / unsigned(b)); }
PTX int mod(int a, int b) { return int(unsigned(a) % unsigned(b)); }
PTX int ceildiv(int a, int b) { return int((unsigned(a) + unsigned(b) - 1u) / unsigned(b)); }
PTX int mulhi(int a, int b) { return int(__umulhi(2u * unsigned(a), unsigned(b))); }
PTX long long div(long long a, long long b) { return (long long)(u64(a) / u64(b)); }
PTX long long mod(long long a, long long b) { return (long long)(u64(a) % u64(b)); }
PTX long long ceildiv(long long a, long long b) { return (long long)((u64(a) + u64(b) - 1) / u64(b)); }

PTX unsigned shared_address(const void* p) { return unsigned(__cvta_generic_to_shared(p)); }

PTX int cluster_ctarank() {
  unsigned rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return int(rank);
}

PTX int smid() {
  unsigned sm;
  asm("mov.u32 %0, %%smid;" : "=r"(sm));
  return int(sm);
}

// True in one lane of the warp, the same one each time. Every lane must get here.
PTX bool elect() {
  unsigned elected;
  asm volatile(
      "{\n .reg .pred p;\n elect.sync _|p, 0xffffffff;\n selp.u32 %0, 1, 0, p;\n}"
      : "=r"(elected));
  return elected != 0;
}

// --- mbarrier --------------------------------------------------------------------------------

PTX void mbarrier_init(unsigned bar, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(arrivals) : "memory");
}

PTX void mbarrier_inval(unsigned bar) {
  asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(bar) : "memory");
}

PTX void mbarrier_arrive(unsigned bar) {
  asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}

PTX void mbarrier_arrive_remote(unsigned bar, int cta) {
  asm volatile(
      "{\n .reg .b32 remote;\n mapa.shared::cluster.u32 remote, %0, %1;\n"
      " mbarrier.arrive.release.cluster.shared::cluster.b64 _, [remote];\n}" ::"r"(bar),
      "r"(cta)
      : "memory");
}

PTX void mbarrier_arrive_remote_relaxed(unsigned bar, int cta) {
  asm volatile(
      "{\n .reg .b32 remote;\n mapa.shared::cluster.u32 remote, %0, %1;\n"
      " mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [remote];\n}" ::"r"(bar),
      "r"(cta)
      : "memory");
}

PTX void mbarrier_arrive_expect_tx(unsigned bar, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;" ::"r"(bar),
               "r"(bytes)
               : "memory");
}

PTX bool mbarrier_try_wait_parity(unsigned bar, int parity) {
  unsigned done;
  asm volatile(
      "{\n .reg .pred p;\n mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 p, [%1], %2;\n"
      " selp.u32 %0, 1, 0, p;\n}"
      : "=r"(done)
      : "r"(bar), "r"(parity)
      : "memory");
  return done != 0;
}

PTX bool mbarrier_try_wait_parity_cluster(unsigned bar, int parity) {
  unsigned done;
  asm volatile(
      "{\n .reg .pred p;\n mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\n"
      " selp.u32 %0, 1, 0, p;\n}"
      : "=r"(done)
      : "r"(bar), "r"(parity)
      : "memory");
  return done != 0;
}

PTX bool mbarrier_try_wait_parity_relaxed(unsigned bar, int parity) {
  unsigned done;
  asm volatile(
      "{\n .reg .pred p;\n mbarrier.try_wait.parity.relaxed.cluster.shared::cta.b64 p, [%1], %2;\n"
      " selp.u32 %0, 1, 0, p;\n}"
      : "=r"(done)
      : "r"(bar), "r"(parity)
      : "memory");
  return done != 0;
}

PTX void mbarrier_wait(unsigned bar, int parity) {
  while (!mbarrier_try_wait_parity(bar, parity)) {
  }
}

PTX void mbarrier_wait_cluster(unsigned bar, int parity) {
  while (!mbarrier_try_wait_parity_cluster(bar, parity)) {
  }
}

PTX void mbarrier_wait_relaxed(unsigned bar, int parity) {
  while (!mbarrier_try_wait_parity_relaxed(bar, parity)) {
  }
}

PTX void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

PTX void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// --- named barriers, CTA and cluster barriers, registers --------------------------------------

PTX void bar_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

PTX void bar_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

PTX void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

template <int count>
PTX void setmaxnreg_inc() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(count));
}

template <int count>
PTX void setmaxnreg_dec() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(count));
}

// --- TMA -------------------------------------------------------------------------------------
// Coordinates are (column, row): the innermost dimension comes first.

PTX void prefetch_tensormap(const TensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

PTX void tma_load_2d(unsigned dst, const TensorMap* map, int col, int row, unsigned bar) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%2, %3}], [%4];" ::"r"(dst),
      "l"(map), "r"(col), "r"(row), "r"(bar)
      : "memory");
}

PTX void tma_load_2d_multicast(unsigned dst, const TensorMap* map, int col, int row, unsigned bar,
                               int mask) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(dst),
      "l"(map), "r"(col), "r"(row), "r"(bar), "h"((unsigned short)mask)
      : "memory");
}

PTX void tma_store_2d(const TensorMap* map, int col, int row, unsigned src) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map),
      "r"(col), "r"(row), "r"(src)
      : "memory");
}

// The same with a cache policy, which `createpolicy` makes.

PTX void tma_load_2d_hint(unsigned dst, const TensorMap* map, int col, int row, unsigned bar,
                          u64 policy) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".L2::cache_hint [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(dst),
      "l"(map), "r"(col), "r"(row), "r"(bar), "l"(policy)
      : "memory");
}

PTX void tma_load_2d_multicast_hint(unsigned dst, const TensorMap* map, int col, int row,
                                    unsigned bar, int mask, u64 policy) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".multicast::cluster.L2::cache_hint [%0], [%1, {%2, %3}], [%4], %5, %6;" ::"r"(dst),
      "l"(map), "r"(col), "r"(row), "r"(bar), "h"((unsigned short)mask), "l"(policy)
      : "memory");
}

PTX void tma_store_2d_hint(const TensorMap* map, int col, int row, unsigned src, u64 policy) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group.L2::cache_hint"
      " [%0, {%1, %2}], [%3], %4;" ::"l"(map),
      "r"(col), "r"(row), "r"(src), "l"(policy)
      : "memory");
}

PTX u64 createpolicy_evict_first() {
  u64 policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

PTX u64 createpolicy_evict_last() {
  u64 policy;
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

PTX void bulk_commit_group() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

template <int pending>
PTX void bulk_wait_group() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(pending) : "memory");
}

template <int pending>
PTX void bulk_wait_group_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(pending) : "memory");
}

// --- other grids -----------------------------------------------------------------------------

PTX void griddepcontrol_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

PTX void griddepcontrol_launch_dependents() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

// --- registers to shared memory ----------------------------------------------------------------

PTX void stmatrix_x4(unsigned dst, unsigned a, unsigned b, unsigned c, unsigned d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(dst),
               "r"(a), "r"(b), "r"(c), "r"(d)
               : "memory");
}

PTX void stmatrix_x2(unsigned dst, unsigned a, unsigned b) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(dst), "r"(a), "r"(b)
               : "memory");
}

PTX void st_shared_v2(unsigned dst, float a, float b) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(dst), "f"(a), "f"(b) : "memory");
}

// --- shared memory to registers ----------------------------------------------------------------

PTX void ldmatrix_x4(unsigned src, unsigned& a, unsigned& b, unsigned& c, unsigned& d) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
               : "r"(src)
               : "memory");
}

PTX void ldmatrix_x2(unsigned src, unsigned& a, unsigned& b) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(a), "=r"(b)
               : "r"(src)
               : "memory");
}

PTX void ld_shared_v2(unsigned src, float& a, float& b) {
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(a), "=f"(b) : "r"(src) : "memory");
}

// --- words in shared memory ------------------------------------------------------------------------

PTX int ld_shared_u32(unsigned src) {
  int value;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(value) : "r"(src) : "memory");
  return value;
}

PTX void st_shared_u32(unsigned dst, int value) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(dst), "r"(value) : "memory");
}

PTX void st_shared_u32_remote(unsigned dst, int value, int cta) {
  asm volatile(
      "{\n .reg .b32 remote;\n mapa.shared::cluster.u32 remote, %0, %2;\n"
      " st.shared::cluster.u32 [remote], %1;\n}" ::"r"(dst),
      "r"(value), "r"(cta)
      : "memory");
}

// --- global memory to registers: zero where `inside` is false -------------------------------------
// Predicated instead of branched around, so that many loads are in flight. Not `.nc`: that takes
// memory which nobody writes while the kernel runs, and the grid in front of ours may still do so.

PTX unsigned ld_global_b16(const unsigned short* at, bool inside) {
  unsigned short value;
  asm volatile(
      "{\n .reg .pred p;\n setp.ne.b32 p, %2, 0;\n mov.b16 %0, 0;\n"
      " @p ld.global.b16 %0, [%1];\n}"
      : "=&h"(value)
      : "l"(at), "r"(int(inside)));
  return value;
}

PTX unsigned ld_global_b32(const unsigned short* at, bool inside) {
  unsigned value;
  asm volatile(
      "{\n .reg .pred p;\n setp.ne.b32 p, %2, 0;\n mov.b32 %0, 0;\n"
      " @p ld.global.b32 %0, [%1];\n}"
      : "=&r"(value)
      : "l"(at), "r"(int(inside)));
  return value;
}

PTX float ld_global_f32(const float* at, bool inside) {
  float value;
  asm volatile(
      "{\n .reg .pred p;\n setp.ne.b32 p, %2, 0;\n mov.b32 %0, 0;\n"
      " @p ld.global.f32 %0, [%1];\n}"
      : "=&f"(value)
      : "l"(at), "r"(int(inside)));
  return value;
}

PTX void ld_global_v2_f32(float& a, float& b, const float* at, bool inside) {
  asm volatile(
      "{\n .reg .pred p;\n setp.ne.b32 p, %3, 0;\n mov.b32 %0, 0;\n mov.b32 %1, 0;\n"
      " @p ld.global.v2.f32 {%0, %1}, [%2];\n}"
      : "=&f"(a), "=&f"(b)
      : "l"(at), "r"(int(inside)));
}

// --- counters in global memory: the atomics are written for each kernel ----------------------------

PTX int ld_acquire_gpu(const int* at) {
  int value;
  asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
  return value;
}

PTX void counter_wait(const int* at, int least) {
  while (ld_acquire_gpu(at) < least) {
  }
}

// --- partial results in global memory ----------------------------------------------------------------

PTX void st_global_v4_f32(float* at, float a, float b, float c, float d) {
  asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(at), "f"(a), "f"(b), "f"(c), "f"(d)
               : "memory");
}

PTX void add_global_v4_f32(const float* at, float& a, float& b, float& c, float& d) {
  float e, f, g, h;
  asm volatile("ld.global.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(e), "=f"(f), "=f"(g), "=f"(h)
               : "l"(at));
  a += e;
  b += f;
  c += g;
  d += h;
}

// --- registers to global memory: nothing where `inside` is false -----------------------------------

PTX void st_global_b16(unsigned short* at, unsigned value, bool inside) {
  asm volatile("{\n .reg .pred p;\n setp.ne.b32 p, %2, 0;\n @p st.global.b16 [%0], %1;\n}" ::"l"(at),
               "h"((unsigned short)value), "r"(int(inside))
               : "memory");
}

PTX void st_global_b32(unsigned short* at, unsigned value, bool inside) {
  asm volatile("{\n .reg .pred p;\n setp.ne.b32 p, %2, 0;\n @p st.global.b32 [%0], %1;\n}" ::"l"(at),
               "r"(value), "r"(int(inside))
               : "memory");
}

PTX void st_global_f32(float* at, float value, bool inside) {
  asm volatile("{\n .reg .pred p;\n setp.ne.b32 p, %2, 0;\n @p st.global.f32 [%0], %1;\n}" ::"l"(at),
               "f"(value), "r"(int(inside))
               : "memory");
}

PTX void st_global_v2_f32(float* at, float a, float b, bool inside) {
  asm volatile(
      "{\n .reg .pred p;\n setp.ne.b32 p, %3, 0;\n"
      " @p st.global.v2.f32 [%0], {%1, %2};\n}" ::"l"(at),
      "f"(a), "f"(b), "r"(int(inside))
      : "memory");
}

// --- traces: a header (stamps made, 0), then a record (time, code | value << 32) for each stamp -----

PTX void put_record(u64* records, u64 index, u64 low, u64 high) {
  asm volatile("st.global.v2.u64 [%0], {%1, %2};" ::"l"(records + 2 * index), "l"(low), "l"(high)
               : "memory");
}

template <int slots>
PTX void stamp(u64* records, int& made, u64 now, unsigned code, int value) {
  if (elect()) {
    if (made < slots) put_record(records, 1 + made, now, u64(unsigned(value)) << 32 | code);
    put_record(records, 0, u64(made + 1), 0);
  }
  __syncwarp();
  ++made;
}

template <int slots>
PTX void stamp_clock64(u64* records, int& made, unsigned code, int value) {
  u64 now;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(now)::"memory");
  stamp<slots>(records, made, now, code, value);
}

template <int slots>
PTX void stamp_globaltimer(u64* records, int& made, unsigned code, int value) {
  u64 now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)::"memory");
  stamp<slots>(records, made, now, code, value);
}

// --- arithmetic ----------------------------------------------------------------------------------

// NaN if either argument is.
PTX float min_nan(float a, float b) {
  float value;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(value) : "f"(a), "f"(b));
  return value;
}

PTX float max_nan(float a, float b) {
  float value;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(value) : "f"(a), "f"(b));
  return value;
}

// 1 / (1 + 2^(-x log2 e)), relative error below 4e-7 + 1e-7 |x|; zero where it is below 2^-126.
PTX float sigmoid(float x) {
  float power, value;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x * -1.4426950408889634f));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(value) : "f"(1.0f + power));
  return value;
}

// --- conversions: the lower column is in the lower half -----------------------------------------

PTX unsigned cvt_bf16x2(float low, float high) {
  unsigned packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

PTX unsigned cvt_f16x2(float low, float high) {
  unsigned packed;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

template <int half>
PTX float cvt_f32_bf16(unsigned packed) {
  return __uint_as_float(half ? packed & 0xffff0000u : packed << 16);
}

template <int half>
PTX float cvt_f32_f16(unsigned packed) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"((unsigned short)(packed >> (16 * half))));
  return value;
}

// --- wgmma -----------------------------------------------------------------------------------

PTX void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

PTX void wgmma_commit_group() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

template <int pending>
PTX void wgmma_wait_group() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}

// Shared-memory matrix descriptor from its constant high word and its low word (address / 16, with
// the leading byte offset above it). Addresses stay below 2^18, so the address field never carries.
PTX u64 descriptor(unsigned high, unsigned low) { return u64(high) << 32 | low; }

// `x`, which the compiler may not compute a second time where it is used.
PTX int once(int x) {
  asm volatile("" : "+r"(x));
  return x;
}

// The compiler may not move accesses of the registers `d` across this point.
template <int count>
PTX void pin(float (&d)[count]) {
#pragma unroll
  for (int i = 0; i < count; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

}  // namespace ptx

#undef PTX
