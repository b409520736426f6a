// A CUDA runtime without a device, preloaded: one Hopper with 132 multiprocessors, of which nvFuser
// asks nothing but its properties while it plans a kernel, schedules it and generates its code.
#define cudaGetDeviceProperties cudaGetDeviceProperties_other
#include <cstring>
#include <dlfcn.h>
#include "driver_types.h"

#define EXPORT extern "C" __attribute__((visibility("default")))
#define OK return cudaSuccess

EXPORT cudaError_t cudaGetDeviceCount(int* n) { *n = 1; OK; }
EXPORT cudaError_t cudaGetDevice(int* n) { *n = 0; OK; }
EXPORT cudaError_t cudaSetDevice(int) { OK; }
EXPORT cudaError_t cudaFree(void*) { OK; }
EXPORT cudaError_t cudaDriverGetVersion(int* v) { *v = 12080; OK; }
EXPORT cudaError_t cudaRuntimeGetVersion(int* v) { *v = 12080; OK; }
EXPORT cudaError_t cudaGetLastError() { OK; }
EXPORT cudaError_t cudaPeekAtLastError() { OK; }
EXPORT cudaError_t cudaDeviceSynchronize() { OK; }
EXPORT cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* most) {
  *least = 0;
  *most = -5;
  OK;
}
EXPORT cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) { *can = 0; OK; }
EXPORT cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *free = *total = 141ull << 30;
  OK;
}
EXPORT cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int) {
  switch (int(which)) {
    case cudaDevAttrComputeCapabilityMajor: *value = 9; break;
    case cudaDevAttrComputeCapabilityMinor: *value = 0; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = 232448; break;
    case cudaDevAttrMultiProcessorCount: *value = 132; break;
    case cudaDevAttrWarpSize: *value = 32; break;
    default: *value = 1;
  }
  OK;
}
EXPORT cudaError_t cudaGetDeviceProperties_v2(cudaDeviceProp* p, int) {
  memset(p, 0, sizeof *p);
  strcpy(p->name, "stand-in for an H200");
  p->major = 9;
  p->multiProcessorCount = 132;
  p->warpSize = 32;
  p->totalGlobalMem = 141ull << 30;
  p->sharedMemPerBlock = 48 << 10;
  p->sharedMemPerBlockOptin = 227 << 10;
  p->sharedMemPerMultiprocessor = 228 << 10;
  p->reservedSharedMemPerBlock = 1 << 10;
  p->regsPerBlock = p->regsPerMultiprocessor = 64 << 10;
  p->maxThreadsPerBlock = 1024;
  p->maxThreadsPerMultiProcessor = 2048;
  p->maxBlocksPerMultiProcessor = 32;
  p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024;
  p->maxThreadsDim[2] = 64;
  p->maxGridSize[0] = 2147483647;
  p->maxGridSize[1] = p->maxGridSize[2] = 65535;
  p->l2CacheSize = 60 << 20;
  p->cooperativeLaunch = p->concurrentKernels = p->unifiedAddressing = 1;
  OK;
}

static cudaError_t entry(const char* name, void** f, cudaDriverEntryPointQueryResult* found) {
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY);
  *f = driver ? dlsym(driver, name) : nullptr;
  if (found) {
    *found = *f ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  }
  OK;
}
EXPORT cudaError_t cudaGetDriverEntryPoint(
    const char* name, void** f, unsigned long long, cudaDriverEntryPointQueryResult* found) {
  return entry(name, f, found);
}
EXPORT cudaError_t cudaGetDriverEntryPointByVersion(
    const char* name, void** f, unsigned, unsigned long long,
    cudaDriverEntryPointQueryResult* found) {
  return entry(name, f, found);
}
