#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

/// What libcufile.so.0 takes and gives (cuFile 1.14 and later, LP64). Declared here because the
/// machines that build this have no header of it.
namespace orbitkv::cufile::abi {

/// Returned by value. `err` 0 is success; cuFile's own statuses start at 5001.
struct Error {
  int32_t err;
  int32_t cu_err;
};
static_assert(sizeof(Error) == 8);

struct Descriptor {
  int32_t type;  // 1: a POSIX descriptor
  union {
    int fd;
    void* handle;
  };
  const void* fs_operations;
};
static_assert(sizeof(Descriptor) == 24 && offsetof(Descriptor, fd) == 8);

struct DriverProperties {
  uint32_t major;
  uint32_t minor;
  size_t poll_threshold_kb;
  size_t max_direct_io_kb;
  uint32_t status_flags;
  uint32_t control_flags;
  uint32_t feature_flags;
  uint32_t max_device_cache_kb;
  uint32_t per_buffer_cache_kb;
  uint32_t max_pinned_kb;
  uint32_t max_batch_io;
  uint32_t batch_timeout_ms;
};
static_assert(sizeof(DriverProperties) == 56);
static_assert(offsetof(DriverProperties, feature_flags) == 32);

using Handle = void*;
using StreamHandle = void*;

inline constexpr int32_t kPosixDescriptor = 1;
inline constexpr int32_t kAllowCompatMode = 1;
inline constexpr int32_t kForceCompatMode = 2;
inline constexpr int32_t kLogFolder = 2;
/// Position of a bit in `feature_flags`.
inline constexpr uint32_t kStreamsFeature = 2;
/// Position of a bit in `control_flags`.
inline constexpr uint32_t kAllowCompatControl = 1;
/// Buffer offset, file offset and size do not change after submission, and all are whole pages.
inline constexpr uint32_t kStreamAllFixedAndAligned = 0xF;

inline constexpr int32_t kNotInitialized = 5001;
inline constexpr int32_t kHandleNotRegistered = 5027;
inline constexpr int32_t kFirstStatus = 5000;

}  // namespace orbitkv::cufile::abi
