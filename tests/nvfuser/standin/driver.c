/* A CUDA driver without a device: every function that nvFuser looks up is there and does nothing. */
#include <stddef.h>

#define NOTHING(name) int name() { return 0; }
NOTHING(cuInit) NOTHING(cuCtxGetCurrent) NOTHING(cuModuleUnload) NOTHING(cuModuleLoadData)
NOTHING(cuModuleLoadDataEx) NOTHING(cuLaunchKernel) NOTHING(cuLaunchKernelEx)
NOTHING(cuLaunchCooperativeKernel) NOTHING(cuFuncSetAttribute)
NOTHING(cuFuncGetAttribute) NOTHING(cuDeviceGetName) NOTHING(cuGetErrorName)
NOTHING(cuGetErrorString) NOTHING(cuGetProcAddress) NOTHING(cuGetProcAddress_v2)
NOTHING(cuTensorMapEncodeTiled) NOTHING(cuTensorMapEncodeIm2col)
NOTHING(cuTensorMapEncodeIm2colWide) NOTHING(cuStreamBatchMemOp) NOTHING(cuStreamWaitValue32)
NOTHING(cuStreamWriteValue32) NOTHING(cuStreamWaitValue32_v2) NOTHING(cuStreamWriteValue32_v2)
NOTHING(cuMemCreate) NOTHING(cuMemMap) NOTHING(cuMemUnmap) NOTHING(cuMemRelease)
NOTHING(cuMemSetAccess) NOTHING(cuMemGetAccess) NOTHING(cuMemAddressReserve)
NOTHING(cuMemAddressFree) NOTHING(cuMemExportToShareableHandle)
NOTHING(cuMemImportFromShareableHandle) NOTHING(cuMemGetAllocationGranularity)
NOTHING(cuMemGetAllocationPropertiesFromHandle) NOTHING(cuMemRetainAllocationHandle)
NOTHING(cuMemGetAddressRange) NOTHING(cuMemGetAddressRange_v2) NOTHING(cuMulticastCreate)
NOTHING(cuMulticastAddDevice) NOTHING(cuMulticastBindMem) NOTHING(cuMulticastUnbind)
NOTHING(cuMulticastGetGranularity)

int cuModuleGetFunction(void** function, void* module, const char* name) {
  *function = (void*)1;
  return 0;
}
int cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* active) {
  *flags = 0;
  *active = 0;
  return 0;
}
int cuDriverGetVersion(int* version) { *version = 12080; return 0; }
int cuDeviceGet(int* device, int ordinal) { *device = ordinal; return 0; }
int cuDeviceGetAttribute(int* value, int which, int device) {
  switch (which) {
    case 75: *value = 9; break;      /* compute capability, major */
    case 76: *value = 0; break;      /* and minor */
    case 97: *value = 232448; break; /* shared memory of a CTA, opt-in */
    case 8: *value = 49152; break;   /* and without */
    case 16: *value = 132; break;    /* multiprocessors */
    case 10: *value = 32; break;     /* threads of a warp */
    default: *value = 1;
  }
  return 0;
}
int cuOccupancyMaxPotentialClusterSize(int* n, void* f, void* config) { *n = 16; return 0; }
int cuOccupancyMaxActiveClusters(int* n, void* f, void* config) { *n = 66; return 0; }
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* n, void* f, int threads, size_t shared) {
  *n = 1;
  return 0;
}
int cuOccupancyAvailableDynamicSMemPerBlock(size_t* n, void* f, int ctas, int threads) {
  *n = 231424;
  return 0;
}
