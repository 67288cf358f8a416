#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

/// The CUDA driver's own interface: declared here, opened at run time.
namespace orbitkv::cuda {

using Result = int;
using DeviceNumber = int;
using DeviceAddress = uint64_t;
struct ContextRecord;
struct StreamRecord;
struct EventRecord;
struct ModuleRecord;
struct FunctionRecord;
using Context = ContextRecord*;
using StreamPointer = StreamRecord*;
using EventPointer = EventRecord*;
using Module = ModuleRecord*;
using Function = FunctionRecord*;

struct IpcHandle {
  char bytes[64];
};
static_assert(sizeof(IpcHandle) == 64);

struct CopyAttributes {
  uint32_t source_access_order;
  struct {
    uint32_t type;
    int32_t id;
  } source_hint, target_hint;
  uint32_t flags;
};
static_assert(sizeof(CopyAttributes) == 24);

inline constexpr Result kSuccess = 0;
inline constexpr Result kInvalidValue = 1;
inline constexpr Result kOutOfMemory = 2;
inline constexpr Result kInvalidImage = 200;
inline constexpr Result kInvalidContext = 201;
inline constexpr Result kNoBinary = 209;
inline constexpr Result kInvalidPtx = 218;
inline constexpr Result kNotReady = 600;
inline constexpr Result kHostAlreadyRegistered = 712;
inline constexpr Result kNotSupported = 801;

inline constexpr int kAttributeMultiprocessors = 16;
inline constexpr int kAttributeMajor = 75;
inline constexpr int kAttributeMinor = 76;

inline constexpr int kPointerMemoryType = 2;
inline constexpr int kPointerOrdinal = 9;
inline constexpr int kPointerIpcCapable = 10;
inline constexpr unsigned kMemoryTypeDevice = 2;

inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventNoTiming = 2;
inline constexpr unsigned kEventTiming = 0;
inline constexpr unsigned kHostPortable = 1;
inline constexpr unsigned kHostMapped = 2;
inline constexpr unsigned kIpcLazyPeer = 1;
inline constexpr uint32_t kAccessInStreamOrder = 1;

/// name, version that its ABI is pinned to (never the driver's own: some functions change their
/// arguments under one name), whether we can do without, arguments.
#define ORBITKV_DRIVER_FUNCTIONS(X)                                                              \
  X(cuInit, 2000, true, (unsigned))                                                              \
  X(cuDriverGetVersion, 2020, true, (int*))                                                      \
  X(cuGetErrorName, 6000, true, (Result, const char**))                                          \
  X(cuDeviceGetCount, 2000, true, (int*))                                                        \
  X(cuDeviceGet, 2000, true, (DeviceNumber*, int))                                               \
  X(cuDeviceGetAttribute, 2000, true, (int*, int, DeviceNumber))                                 \
  X(cuDeviceGetName, 2000, true, (char*, int, DeviceNumber))                                     \
  X(cuDeviceGetUuid, 11040, true, (unsigned char*, DeviceNumber))                                \
  X(cuDeviceTotalMem, 3020, true, (size_t*, DeviceNumber))                                       \
  X(cuDevicePrimaryCtxRetain, 7000, true, (Context*, DeviceNumber))                              \
  X(cuCtxSetCurrent, 4000, true, (Context))                                                      \
  X(cuStreamCreate, 2000, true, (StreamPointer*, unsigned))                                      \
  X(cuStreamDestroy, 4000, true, (StreamPointer))                                                \
  X(cuStreamQuery, 2000, true, (StreamPointer))                                                  \
  X(cuStreamSynchronize, 2000, true, (StreamPointer))                                            \
  X(cuStreamWaitEvent, 3020, true, (StreamPointer, EventPointer, unsigned))                      \
  X(cuStreamWriteValue32, 11070, false, (StreamPointer, DeviceAddress, uint32_t, unsigned))      \
  X(cuLaunchHostFunc, 10000, true, (StreamPointer, void (*)(void*), void*))                      \
  X(cuEventCreate, 2000, true, (EventPointer*, unsigned))                                        \
  X(cuEventDestroy, 4000, true, (EventPointer))                                                  \
  X(cuEventRecord, 2000, true, (EventPointer, StreamPointer))                                    \
  X(cuEventQuery, 2000, true, (EventPointer))                                                    \
  X(cuEventElapsedTime, 2000, true, (float*, EventPointer, EventPointer))                        \
  X(cuMemAlloc, 3020, true, (DeviceAddress*, size_t))                                            \
  X(cuMemFree, 3020, true, (DeviceAddress))                                                      \
  X(cuMemGetAddressRange, 3020, true, (DeviceAddress*, size_t*, DeviceAddress))                  \
  X(cuPointerGetAttribute, 4000, true, (void*, int, DeviceAddress))                              \
  X(cuMemcpyHtoDAsync, 3020, true, (DeviceAddress, const void*, size_t, StreamPointer))          \
  X(cuMemcpyDtoHAsync, 3020, true, (void*, DeviceAddress, size_t, StreamPointer))                \
  X(cuMemcpyDtoDAsync, 3020, true, (DeviceAddress, DeviceAddress, size_t, StreamPointer))        \
  X(cuMemcpyBatchAsync, 12080, false,                                                            \
    (DeviceAddress*, DeviceAddress*, size_t*, size_t, CopyAttributes*, size_t*, size_t, size_t*, \
     StreamPointer))                                                                             \
  X(cuMemsetD8Async, 3020, true, (DeviceAddress, unsigned char, size_t, StreamPointer))          \
  X(cuMemHostAlloc, 2020, true, (void**, size_t, unsigned))                                      \
  X(cuMemFreeHost, 2000, true, (void*))                                                          \
  X(cuMemHostRegister, 6050, true, (void*, size_t, unsigned))                                    \
  X(cuMemHostUnregister, 4000, true, (void*))                                                    \
  X(cuMemHostGetDevicePointer, 3020, true, (DeviceAddress*, void*, unsigned))                    \
  X(cuIpcGetMemHandle, 4010, true, (IpcHandle*, DeviceAddress))                                  \
  X(cuIpcOpenMemHandle, 11000, true, (DeviceAddress*, IpcHandle, unsigned))                      \
  X(cuIpcCloseMemHandle, 4010, true, (DeviceAddress))                                            \
  X(cuModuleLoadData, 2000, true, (Module*, const void*))                                        \
  X(cuModuleGetFunction, 2000, true, (Function*, Module, const char*))                           \
  X(cuLaunchKernel, 4000, true,                                                                  \
    (Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,             \
     StreamPointer, void**, void**))

/// The driver's functions; an optional one that this driver lacks is null.
struct Driver {
#define ORBITKV_DECLARE(name, version, required, arguments) Result(*name) arguments = nullptr;
  ORBITKV_DRIVER_FUNCTIONS(ORBITKV_DECLARE)
#undef ORBITKV_DECLARE
  std::string library;
  int version = 0;

  /// "CUDA_ERROR_OUT_OF_MEMORY (2)".
  std::string Name(Result result) const;
  /// Throws SystemError when `result` is not success: ENOMEM for memory, else EIO, EINVAL.
  void Require(Result result, const std::string& action) const;
};

/// Errors after which a context does nothing any more in this process.
bool IsSticky(Result result);

/// Whether the driver can be used; loaded and initialised at the first call, kept for ever.
struct DriverState {
  const Driver* driver = nullptr;
  std::string reason;
};
const DriverState& TheDriver();

/// Throws SystemError ENODEV with the reason.
const Driver& RequireDriver();

/// An absolute path in this variable is opened in the place of libcuda.so.1.
inline constexpr const char* kDriverOverride = "ORBITKV_LIBCUDA";

}  // namespace orbitkv::cuda
