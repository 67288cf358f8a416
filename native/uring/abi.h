#pragma once

#include <cstdint>

/// The kernel's io_uring ABI as far as we use it. Declared here because distribution headers are
/// older than kernels.
namespace orbitkv::uring {

inline constexpr long kSetupCall = 425;
inline constexpr long kEnterCall = 426;
inline constexpr long kRegisterCall = 427;

inline constexpr uint32_t kSetupCqSize = 1u << 3;
inline constexpr uint32_t kSetupClamp = 1u << 4;
inline constexpr uint32_t kSetupSubmitAll = 1u << 7;
inline constexpr uint32_t kSetupCoopTaskrun = 1u << 8;
inline constexpr uint32_t kSetupTaskrunFlag = 1u << 9;
inline constexpr uint32_t kSetupSingleIssuer = 1u << 12;
inline constexpr uint32_t kSetupDeferTaskrun = 1u << 13;

inline constexpr uint32_t kFeatureSingleMmap = 1u << 0;
inline constexpr uint32_t kFeatureNoDrop = 1u << 1;
inline constexpr uint32_t kFeatureExtArg = 1u << 8;

inline constexpr uint32_t kEnterGetEvents = 1u << 0;
inline constexpr uint32_t kEnterExtArg = 1u << 3;

inline constexpr uint64_t kSqRingOffset = 0;
inline constexpr uint64_t kCqRingOffset = 0x8000000;
inline constexpr uint64_t kSqesOffset = 0x10000000;

inline constexpr uint32_t kSqCqOverflow = 1u << 1;
inline constexpr uint32_t kSqTaskrun = 1u << 2;

inline constexpr uint8_t kOpWritev = 2;
inline constexpr uint8_t kOpReadFixed = 4;
inline constexpr uint8_t kOpWriteFixed = 5;
inline constexpr uint8_t kOpPollAdd = 6;
inline constexpr uint8_t kOpAsyncCancel = 14;
inline constexpr uint8_t kOpRead = 22;
inline constexpr uint8_t kOpWrite = 23;

inline constexpr uint8_t kSqeFixedFile = 1u << 0;
inline constexpr uint32_t kPollAddMulti = 1u << 0;
inline constexpr uint32_t kCancelAll = 1u << 0;
inline constexpr uint32_t kCancelAny = 1u << 2;
inline constexpr uint32_t kCqeMore = 1u << 1;

inline constexpr uint32_t kRegisterBuffers = 0;
inline constexpr uint32_t kRegisterFiles = 2;
inline constexpr uint32_t kRegisterFilesUpdate = 6;

struct Sqe {
  uint8_t opcode;
  uint8_t flags;
  uint16_t ioprio;
  int32_t fd;
  uint64_t offset;
  uint64_t address;
  uint32_t length;
  /// poll32_events, cancel_flags or rw_flags.
  uint32_t op_flags;
  uint64_t user_data;
  uint16_t buffer_index;
  uint16_t personality;
  int32_t file_index;
  uint64_t address3;
  uint64_t padding;
};
static_assert(sizeof(Sqe) == 64);

struct Cqe {
  uint64_t user_data;
  int32_t result;
  uint32_t flags;
};
static_assert(sizeof(Cqe) == 16);

struct SqOffsets {
  uint32_t head, tail, ring_mask, ring_entries, flags, dropped, array, reserved;
  uint64_t user_address;
};

struct CqOffsets {
  uint32_t head, tail, ring_mask, ring_entries, overflow, cqes, flags, reserved;
  uint64_t user_address;
};

struct SetupParameters {
  uint32_t sq_entries, cq_entries, flags, sq_thread_cpu, sq_thread_idle, features, wq_fd;
  uint32_t reserved[3];
  SqOffsets sq;
  CqOffsets cq;
};
static_assert(sizeof(SetupParameters) == 120);

struct GetEventsArgument {
  uint64_t sigmask;
  uint32_t sigmask_bytes;
  uint32_t min_wait_us;
  uint64_t timeout;
};
static_assert(sizeof(GetEventsArgument) == 24);

struct KernelTimespec {
  int64_t seconds;
  int64_t nanoseconds;
};

struct FilesUpdate {
  uint32_t offset;
  uint32_t reserved;
  uint64_t fds;
};
static_assert(sizeof(FilesUpdate) == 16);

}  // namespace orbitkv::uring
